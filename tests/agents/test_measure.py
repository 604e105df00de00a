"""Paired timing with a clock that lies in known ways: noise, drift, and a true ratio to be found."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from amk.agents.measure import CudaEventClock, HostClock, measure_pair, summarise
from amk.errors import ArgumentError

sys.path.insert(0, str(Path(__file__).parent.parent / "runtime"))


class FakeClock:
    """`noise`: each sample times 1 +- noise; `drift`: each sample is slower by this share than the one before."""

    def __init__(self, noise=0.0, drift=0.0, seed=7):
        self.random, self.noise, self.drift = random.Random(seed), noise, drift
        self.samples, self.seconds, self.flushes, self.cost = 0, 0.0, 0, 0.0
        self.calls_seen = []

    def time(self, call, calls):
        self.cost = 0.0
        for _ in range(min(calls, 3)):
            call()
        once = self.cost / min(calls, 3)
        self.samples += 1
        self.calls_seen.append(calls)
        self.seconds += once * calls * 1e-6
        return once * (1 + self.random.uniform(-self.noise, self.noise)) * (1 + self.drift) ** self.samples

    def flush(self):
        self.flushes += 1

    def now(self):
        return self.seconds

    def describe(self):
        return {"clock": "fake", "device": "none", "driver": "none", "sm_clock_mhz": None}


def pair(clock, a_us=105.0, b_us=100.0, **options):
    def a():
        clock.cost += a_us

    def b():
        clock.cost += b_us

    return measure_pair(a, b, clock=clock, **{"warmup_seconds": 0.001, **options})


def test_exact_clock():
    timing = pair(FakeClock())
    assert timing.speedup.median == pytest.approx(1.05) and timing.control.median == 1
    assert (timing.a_us.median, timing.b_us.p10) == (pytest.approx(105), pytest.approx(100))
    assert timing.faster == "b" and timing.rounds == 30 and timing.calls == 2


def test_noise_is_averaged_out():
    timing = pair(FakeClock(noise=0.2), rounds=300)
    assert timing.speedup.low < 1.05 < timing.speedup.high
    assert timing.speedup.median == pytest.approx(1.05, abs=0.03)
    assert timing.control.low < 1 < timing.control.high and timing.control.median == pytest.approx(1, abs=0.03)


def test_noise_alone_decides_nothing():
    for seed in range(20):
        assert pair(FakeClock(noise=0.2, seed=seed), a_us=100.0).faster == "undecided"


def test_a_slower_candidate_loses():
    assert pair(FakeClock(noise=0.02), a_us=100.0, b_us=120.0).faster == "a"


@pytest.mark.parametrize("drift", [0.01, -0.01])
def test_drift_cancels(drift):
    timing = pair(FakeClock(drift=drift), a_us=100.0, rounds=60)
    assert timing.speedup.median == pytest.approx(1, abs=1e-3) and timing.control.median == pytest.approx(1, abs=1e-3)
    assert min(timing.ratios) < 0.99 and max(timing.ratios) > 1.01  # it was there, round by round


def test_orders_are_balanced():
    timing = pair(FakeClock(), rounds=13)
    assert timing.rounds == 18 and len(timing.ratios) == 18
    assert {order: timing.orders.count(order) for order in timing.orders} == dict.fromkeys(
        ("abc", "acb", "bac", "bca", "cab", "cba"), 3
    )


def test_the_same_samples_give_the_same_answer():
    assert pair(FakeClock(noise=0.1)) == pair(FakeClock(noise=0.1))


def test_cold_flushes_before_every_call():
    clock = FakeClock()
    timing = pair(clock, cold=True, rounds=6)
    assert clock.flushes == 18 and timing.calls == 1 and timing.cold


def test_short_calls_are_batched():
    clock = FakeClock()
    assert pair(clock, a_us=2.0, b_us=1.0, sample_us=100.0).calls == 50
    assert pair(FakeClock(), a_us=1e-9, b_us=1e-9, warmup_seconds=0).calls == 10_000


def test_warm_up_lasts():
    clock = FakeClock()
    pair(clock, warmup_seconds=0.01, rounds=6)
    assert clock.calls_seen.index(2) >= 2 * 48


def test_no_rounds():
    with pytest.raises(ArgumentError, match="rounds is 0"):
        pair(FakeClock(), rounds=0)


def test_errors_of_a_candidate_come_through():
    def bad():
        raise RuntimeError("candidate")

    with pytest.raises(RuntimeError, match="candidate"):
        measure_pair(bad, bad, clock=HostClock())


def test_summary_is_json():
    clock = FakeClock()
    data = json.loads(json.dumps(summarise(pair(clock), clock)))
    assert data["faster"] == "b" and data["speedup"]["median"] == pytest.approx(1.05)
    assert data["device"] == "none" and data["sm_clock_mhz"] is None and len(data["orders"]) == 30


def test_host_clock():
    timing = measure_pair(lambda: None, lambda: sum(range(3000)), clock=HostClock(), rounds=6, warmup_seconds=0)
    assert timing.faster in ("a", "undecided") and timing.a_us.median >= 0
    assert summarise(timing, HostClock())["device"] == "cpu"


def test_event_clock_on_a_fake_gpu():
    from fake_driver import FakeDriver

    from amk.runtime import device

    fake = FakeDriver()
    device.install(fake)
    try:
        with CudaEventClock(0, 0x40) as clock:
            timing = measure_pair(lambda: None, lambda: None, clock=clock, rounds=6, warmup_seconds=0, cold=True)
            facts = summarise(timing, clock)
        assert timing.a_us.median == pytest.approx(4) and timing.faster == "undecided"
        assert {stream for _, stream in fake.calls("record")} == {0x40}
        assert fake.calls("fill") == [(256 << 20, 0x40)] * 18
        assert (facts["target"], facts["driver"], facts["sm_clock_mhz"]) == ("sm_90a", "580.159.04", None)
        assert fake.memory == {} and fake.stack == []
    finally:
        device.install(None)
