# The grader in a container, for systems that aren't Linux and for clusters. Rootless: it runs as an ordinary user.
#
# NOT BUILT HERE: no container engine was at hand where this was written; `nbjudge doctor` in the container
# tells whether it holds. Everything below is also what `make install` does on a plain machine, which is tested.
#
#   podman build -t seegrad .
#   podman run --rm seegrad nbjudge doctor
#   podman run --rm --userns=keep-id -v "$PWD":/course seegrad nbjudge autograde NAME
#
# The walls inside are user namespaces, landlock and seccomp. Engines forbid namespaces to a container by default; allow
# them to this one (with docker the same options, `systempaths=unconfined` instead of `unmask=ALL`):
#
#   podman run --rm --userns=keep-id --security-opt seccomp=unconfined --security-opt unmask=ALL \
#     -v "$PWD":/course seegrad nbjudge autograde NAME
#
# Without them landlock and seccomp hold alone, which is enough on Linux 6.12 or later; on less the grader refuses.
# --network=none is fine for grading on one machine.
FROM docker.io/library/python:3.11-slim-bookworm

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/seegrad
COPY pyproject.toml constraints.txt README.md LICENSE CHANGELOG.md GLOSSARY.md ./
COPY seegrad ./seegrad
COPY grader/pyproject.toml grader/README.md grader/LICENSE ./grader/
COPY grader/nbjudge ./grader/nbjudge
RUN pip install --extra-index-url https://download.pytorch.org/whl/cpu -c constraints.txt ".[torch]" "./grader[cluster]"

RUN useradd --create-home --uid 1000 grader
USER grader
WORKDIR /course
# No ENTRYPOINT: a cluster's launchers (docs/scaling.md) give a whole command, `dask scheduler …`, `dask worker …`.
CMD ["nbjudge", "doctor"]
