// @vitest-environment jsdom
import { beforeEach, describe, expect, it, vi } from "vitest";
import { plainHost } from "../../src/fix/host";
import type { Trial } from "../../src/fix/fix";
import { type Host, mount } from "../../src/ui/player";
import { frame, scene } from "../scene";

let el: HTMLElement;
const $ = (selector: string) => el.querySelector<HTMLElement>(selector)!;
const button = (name: string) => [...el.querySelectorAll("button")].find((each) => each.textContent === name)!;

const fix = { where: "line 2", before: "b.zero_()", after: "b = torch.zeros_like(b)" };
const mended = scene({ frames: [frame(), frame({ severity: "wrong", diagnosis: "Wrong.", fix }), frame({ phase: "backward" })] });

/** A host with a kernel that can be asked. */
function withKernel(): { host: Host; say: (trial: Trial) => void } {
  const plain = plainHost(2);
  const host: Host = { ...plain, get: (key) => (key === "can_try" ? true : plain.get(key)) };
  return { host, say: (trial) => host.set({ trial }) };
}

beforeEach(() => {
  document.body.replaceChildren((el = document.createElement("div")));
});

describe("the line that mends", () => {
  it("stands beside the finding, at later steps too, and is copied", async () => {
    const copied = vi.fn(() => Promise.resolve());
    vi.stubGlobal("navigator", { clipboard: { writeText: copied } });
    mount(el, mended, plainHost(2));
    expect([$(".sg-fl del").textContent, $(".sg-fl ins").textContent, $(".sg-fx span").textContent]).toEqual([fix.before, fix.after, fix.where]);
    button("Copy the fix").click();
    expect(copied).toHaveBeenCalledWith(fix.after);
    await vi.waitFor(() => expect(button("Copied")).toBeTruthy());
    vi.unstubAllGlobals();
  });
  it("isn't there before the finding is, nor can be tried without a kernel", () => {
    mount(el, mended, plainHost(0));
    expect(el.querySelector(".sg-fx")).toBeNull();
    el.replaceChildren();
    mount(el, mended, plainHost(2));
    expect(button("Try the fix").hidden).toBe(true);
  });
  it("is asked for at its step, and both pictures come below, each with steps of its own", () => {
    const { host, say } = withKernel();
    mount(el, mended, host);
    button("Try the fix").click();
    expect(host.get("trial")).toEqual({ state: "asked", step: 2 });
    say({ state: "running" });
    expect(button("Try the fix").disabled).toBe(true);
    say({ state: "done", said: "Nothing is found any more.", told: "first: `b` differs", scenes: [mended, scene({ uid: "s2" })], steps: [2, 1] });
    expect($(".sg-tr").hidden).toBe(false);
    expect($(".sg-tr").textContent).toContain("Nothing is found any more.");
    expect(el.querySelectorAll(".sg-tr .sg").length).toBe(2);
    expect([...el.querySelectorAll(".sg-tr .sg-ct")].map((count) => count.textContent)).toEqual(["3 / 3", "2 / 4"]); // where the finding shows, and where it would
    expect($(".sg-tr .sg .sg-fx [title]").hidden).toBe(true); // a picture of a trial tries nothing
  });
  it("comes into sight where it was asked for, its code as code; not where it was there before", () => {
    const seen: Element[] = [];
    Element.prototype.scrollIntoView = function () { seen.push(this); };
    const { host, say } = withKernel();
    mount(el, mended, host);
    const done: Trial = { state: "done", said: "Of `b` nothing is found.", told: "first: `b` differs", scenes: [mended, scene({ uid: "s2" })], steps: [2, 1] };
    say(done);
    expect(seen).toEqual([]);
    button("Try the fix").click();
    say({ ...done });
    expect(seen).toEqual([$(".sg-tr")]);
    expect([...$(".sg-tr > p").querySelectorAll("code")].map((code) => code.textContent)).toEqual(["b", "b"]);
    expect($(".sg-tr > p").textContent).toBe("Of b nothing is found.\nfirst: b differs");
    delete (Element.prototype as Partial<Element>).scrollIntoView;
  });
  it("says why it couldn't be tried, and that no kernel answers", () => {
    vi.useFakeTimers();
    const { host, say } = withKernel();
    mount(el, mended, host);
    button("Try the fix").click();
    vi.advanceTimersByTime(9000);
    expect($(".sg-fx [role=status]").textContent).toContain("No kernel answers");
    say({ state: "failed", said: "It didn't end within 60 seconds." });
    button("Try the fix").click();
    say({ state: "running" });
    say({ state: "failed", said: "It didn't end within 60 seconds." });
    expect($(".sg-fx [role=status]").textContent).toBe("It didn't end within 60 seconds.");
    expect(button("Try the fix").disabled).toBe(false);
    vi.useRealTimers();
  });
});
