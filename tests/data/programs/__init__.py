"""Small torch programs with what is expected of their diagnosis; the lines are marked where they stand.

A line that ends in `# culprit`, `# victim` or `# culprit, victim` is the one that the first Diagnosis must name; the
marks were set before the program ran. What a program returns is compared with and without `record()`. Whether it raises
is never written down: torch decides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Program:
    """One program and the first Diagnosis it must get; `kind` None: nothing above a note.

    `missed` says why this torch lets it get another one, where it does.
    """

    name: str
    run: Callable[[], Any]
    kind: str | None
    severity: str | None
    node: str | None
    tensor: str | None
    route: str | None
    detail: str
    missed: str
    check_nan: bool = False
    check_functions: bool = False

    def line(self, mark: str) -> int | None:
        """The line that carries the mark."""
        lines, first = inspect.getsourcelines(self.run)
        return next(
            (first + i for i, line in enumerate(lines) if mark in line.rpartition("# ")[2].strip().split(", ")), None
        )


PROGRAMS: dict[str, Program] = {}

SEVERITIES = {
    "saved_tensor_modified": "error",
    "leaf_modified": "error",
    "graph_freed": "error",
    "silent_corruption": "wrong",
    "graph_cut": "note",
    "version_moved": "note",
    "view_modified": "error",
    "memory_overlaps": "error",
    "marked_dirty": "error",
    "saved_tensor_detached": "error",
    "inference_tensor": "error",
    "optimiser_given_non_leaf": "error",
    "unused_input": "error",
    "gradient_overwritten": "wrong",
    "grad_of_non_leaf": "note",
    "cleared_before_step": "wrong",
    "cleared_each_backward": "note",
    "unfinished_window": "note",
    "never_stepped": "note",
    "tie_undone": "note",
    "step_rounded_away": "note",
    "backward_never_called": "note",
    "target_learns_too": "note",
    "gradients_never_cleared": "note",
    "clipped_after_step": "note",
    "foreign_gradients": "note",
    "no_optimiser_holds_it": "note",
    "not_finite": "wrong",
    "gradient_is_zero": "note",
    "freeze_without_effect": "note",
    "learns_no_more": "note",
    "never_reached": "note",
    "graph_kept": "note",
    "kept_by_reference": "note",
    "one_module_twice": "note",
    "weights_of_another_shape": "error",
    "scheduled_before_step": "note",
    "rate_run_out": "note",
    "clipped_while_scaled": "note",
    "clipped_in_parts": "note",
    "divided_late": "note",
    "summed_over_samples": "note",
    "copied_onto_itself": "note",
    "constant_term": "note",
    "backward_disagrees": "note",
    "weight_learns_too": "note",
    "frozen_at_zero": "note",
    "recomputed_otherwise": "wrong",
    "ratio_is_one": "note",
    "loss_of_probabilities": "note",
    "penalty_unused": "note",
    "backward_returns": "error",
    "not_kept_for_backward": "error",
    "trained_in_evaluation": "note",
    "broadcast_crosswise": "note",
    "softmax_of_one": "note",
    "name_rebound": "note",
    "result_dropped": "note",
    "clips_nothing": "note",
    "result_copied": "error",
    "scaled_in_half": "error",
    "unscaled_twice": "error",
    "waited_for": "error",
    "read_after_write": "note",
    "columns_added": "note",
    "not_normalised": "note",
    "dimensions_mixed": "note",
    "dropout_in_evaluation": "note",
    "optimiser_made_again": "note",
    "first_batch_only": "note",
    "loss_turned_round": "note",
    "target_was_given": "note",
    "penalty_of_each_point": "note",
    "out_of_reach": "note",
    "another_axis": "note",
    "one_class_in_a_batch": "note",
    "units_alike": "note",
    "statistics_left_behind": "note",
    "state_made_anew": "note",
    "not_a_scalar": "error",
    "numpy_of_a_result": "error",
    "flag_of_a_result": "error",
    "flag_of_integers": "error",
    "no_derivative": "error",
    "sparse_gradient": "error",
    "two_dtypes": "error",
}


def program(
    kind: str | None = None,
    *,
    node: str | None = None,
    tensor: str | None = None,
    route: str | None = None,
    severity: str | None = None,
    detail: str = "default",
    missed: str = "",
    check_nan: bool = False,
    check_functions: bool = False,
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a program."""

    def register(run: Callable[[], Any]) -> Callable[[], Any]:
        expected = severity or (SEVERITIES[kind] if kind else None)
        PROGRAMS[run.__name__] = Program(
            run.__name__, run, kind, expected, node, tensor, route, detail, missed, check_nan, check_functions
        )
        return run

    return register


def programs() -> dict[str, Program]:
    """All of them."""
    from tests.data.programs import (  # noqa: F401  # importing registers
        adversarial,
        advised,
        bootstrapped,
        chapter,
        checkpoints,
        clinic,
        constants,
        copies,
        cuts,
        field,
        freezes,
        functions,
        kept,
        later,
        legal,
        legal_training,
        legal_writes,
        loops,
        nan,
        odd,
        people,
        recurrent,
        refused,
        reported_again,
        reported_agents,
        reported_apart,
        reported_asked,
        reported_axes,
        reported_classes,
        reported_closures,
        reported_columns,
        reported_derivatives,
        reported_elsewhere,
        reported_fitted,
        reported_hidden,
        reported_images,
        reported_in_vain,
        reported_kept_up,
        reported_let_go,
        reported_loops,
        reported_losses,
        reported_mixed_up,
        reported_models,
        reported_overwritten,
        reported_pairs,
        reported_parts,
        reported_places,
        reported_policies,
        reported_refusals,
        reported_refused,
        reported_rounds,
        reported_rows,
        reported_scales,
        reported_settings,
        reported_shares,
        reported_silent,
        reported_stand_ins,
        reported_steps,
        reported_sums,
        reported_terms,
        reported_threads,
        reported_trainers,
        reported_twins,
        reported_unheard,
        reported_updates,
        reported_ways,
        reported_windows,
        schedules,
        seeds,
        shapes,
        silent,
        slopes,
        unstepped,
        updates,
        views,
        zeros,
    )

    return PROGRAMS
