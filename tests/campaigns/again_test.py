"""One recipe tuned again: what an earlier campaign measured of the baseline is used, or it is not."""

import sys

import world
from world import expect

NO_LEVER_WINS = ["lever: form, flag: --optimizer-form, values: [single], class: batching"]


def campaigns_of(w, *runs):
    """Runs the recipe once for each list of words; the events of the campaigns, in order."""
    for words in runs:
        p = w.run("--exit-status", *words)
        expect(p.code == 10, f"{p.code}: {p.text()}")
    return [world.audit.events(w.state, c) for c in world.audit.campaigns(w.state)]


def of_kind(events, kind):
    return [body for _, k, body in events if k == kind]


def calibration_launches(events):
    return sum(body["purpose"] == "calibration" for body in of_kind(events, "launch_intended"))


def calibration_is_taken_over(w):
    """The second campaign asks for one fresh run and goes on with the first one's band."""
    w.recipe(declare=NO_LEVER_WINS, calibration_runs=3)
    first = campaigns_of(w, [])[0]
    p = w.attune("plan", "recipe.yaml")
    expect("if it confirms that of c-" in p.text(), p.text())
    p = w.attune("run", "recipe.yaml", "--dry-run", "--recalibrate")
    expect("if it confirms" not in p.text() and "3 runs" in p.text(), p.text())
    _, second, third = campaigns_of(w, [], ["--recalibrate"])
    expect([calibration_launches(e) for e in (first, second, third)] == [3, 1, 3],
           f"{[calibration_launches(e) for e in (first, second, third)]}")
    made, = of_kind(first, "calibrated")
    used, = of_kind(second, "calibrated")
    expect(used["reused"] == of_kind(first, "opened")[0]["campaign"], f"{used['reused']}")
    expect(used["calibration"]["band"] == made["calibration"]["band"], "another band")
    probe = [b for b in of_kind(second, "launch_ended")][:1]
    said = w.attune("status", "--json", of_kind(second, "opened")[0]["campaign"])
    status = world.json.loads(said.out)
    expect(status["baseline"]["n"] == 3, said.out)
    expect(abs(status["gpu_hours"]["calibration"] - probe[0]["charged_gpu_ms"] / 3.6e6) < 1e-9,
           f"{said.out} {probe}")
    for campaign in world.audit.campaigns(w.state):
        faults = world.audit.audit(w.state, campaign)
        expect(not faults, "; ".join(faults))
    p = w.attune("db", "check")
    expect(p.code == 0, p.text())


def another_start_point_is_another_baseline(w):
    w.recipe(declare=NO_LEVER_WINS, calibration_runs=2)
    campaigns_of(w, [])
    w.write("ckpt/written-since", "x")
    second = campaigns_of(w, [])[1]
    expect(calibration_launches(second) == 2, f"{calibration_launches(second)}")


CASES = {f.__name__: f for f in (calibration_is_taken_over,
                                 another_start_point_is_another_baseline)}

if __name__ == "__main__":
    sys.exit(world.main(CASES))
