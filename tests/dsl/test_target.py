"""The GPU as data: the figures, finding and storing targets, and occupancy against what drivers and manuals say."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amk.dsl.occupancy import Occupancy, allocated_registers, allocated_shared, at_once, max_registers, occupancy
from amk.dsl.target import Architecture, Feature, Target
from amk.errors import DescriptorError, EnvironmentProblem, InputError

ARCHITECTURES = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")
DEVICES = ("a100", "rtx-3090", "rtx-4060-ti", "l40s", "h100", "h200", "b200", "rtx-5060-ti", "rtx-5090")

# (registers, threads, shared bytes, blocks): cuOccupancyMaxActiveBlocksPerMultiprocessor on an H200, driver 580.159.04,
# three points for each answer, out of 25,092 that agreed. The kernels hold that many values live; nothing is simulated.
DRIVER = [
    (14, 1, 8192, 25),
    (14, 32, 1000, 32),
    (14, 96, 8192, 21),
    (14, 256, 8192, 8),
    (14, 288, 8192, 7),
    (14, 384, 1000, 5),
    (14, 864, 16257, 2),
    (26, 384, 1, 5),
    (32, 32, 0, 32),
    (32, 33, 8192, 25),
    (32, 64, 1, 32),
    (32, 64, 8192, 25),
    (32, 96, 0, 21),
    (32, 96, 8192, 21),
    (32, 96, 16257, 13),
    (32, 160, 127, 12),
    (32, 192, 16257, 10),
    (32, 224, 128, 9),
    (32, 288, 0, 7),
    (32, 352, 1000, 5),
    (40, 64, 128, 24),
    (40, 64, 1000, 24),
    (40, 64, 3000, 24),
    (40, 128, 0, 12),
    (40, 128, 128, 12),
    (40, 160, 128, 9),
    (40, 256, 128, 6),
    (40, 384, 33000, 4),
    (48, 64, 3000, 20),
    (56, 33, 127, 18),
    (56, 33, 1000, 18),
    (56, 64, 8192, 18),
    (56, 128, 1000, 9),
    (56, 160, 127, 7),
    (56, 352, 1, 3),
    (64, 32, 16257, 13),
    (64, 33, 0, 16),
    (64, 64, 1000, 16),
    (64, 64, 8192, 16),
    (64, 96, 1, 10),
    (64, 160, 3000, 6),
    (72, 1, 127, 28),
    (72, 32, 0, 28),
    (72, 32, 1000, 28),
    (72, 33, 0, 14),
    (72, 33, 127, 14),
    (72, 64, 3000, 14),
    (96, 1, 8192, 20),
    (96, 1, 33000, 6),
    (96, 64, 127, 10),
    (128, 32, 16257, 13),
    (128, 64, 16257, 8),
    (168, 1, 101376, 2),
    (168, 33, 75000, 3),
    (168, 64, 75000, 3),
    (168, 96, 1, 4),
    (168, 736, 115713, 0),
    (254, 1, 3000, 8),
    (254, 33, 115712, 2),
    (254, 64, 127, 4),
    (254, 160, 0, 1),
    (254, 192, 115713, 1),
    (254, 224, 128, 1),
    (254, 800, 115713, 0),
    (254, 960, 115712, 0),
]


def test_every_target_is_known_and_sourced() -> None:
    assert tuple(t.name for t in Target.all()) == ARCHITECTURES + DEVICES
    for target in Target.all():
        assert target.source and target.architecture.sources
        assert target.name in ARCHITECTURES or (target.sms and target.l2_bytes and target.bandwidth and target.clock_hz)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_are_consistent(name: str) -> None:
    a = Target.find(name).architecture
    assert a.threads_per_sm == 32 * a.warps_per_sm
    # CUDA C++ Programming Guide, Shared Memory of each capability: all but 1 KiB of an SM's may go to one block.
    assert a.shared_optin == a.shared_per_sm - a.shared_reserved_per_block
    assert a.registers_per_sm == 65536 and a.max_registers_per_thread == 255
    assert (a.max_cluster > 1) == ("cluster" in a.features) == (a.compute_capability >= (9, 0))
    assert ("wgmma" in a.features) == (name == "sm_90a") and "cp.async" in a.features


# CUDA C++ Programming Guide, Technical Specifications per Compute Capability: threads, warps, blocks, shared per SM.
@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("sm_80", (2048, 64, 32, 164 * 1024, 163 * 1024)),
        ("sm_86", (1536, 48, 16, 100 * 1024, 99 * 1024)),
        ("sm_89", (1536, 48, 24, 100 * 1024, 99 * 1024)),
        ("sm_90a", (2048, 64, 32, 228 * 1024, 227 * 1024)),
        ("sm_100a", (2048, 64, 32, 228 * 1024, 227 * 1024)),
        ("sm_120", (1536, 48, 24, 100 * 1024, 99 * 1024)),
    ],
)
def test_the_table_of_the_programming_guide(name: str, row: tuple[int, ...]) -> None:
    a = Target.find(name).architecture
    assert (a.threads_per_sm, a.warps_per_sm, a.blocks_per_sm, a.shared_per_sm, a.shared_optin) == row


# Data sheets: A100 19.5, RTX 3090 35.6, RTX 4060 Ti 22, L40S 91.6, H100 SXM 67, RTX 5090 104.8 TFLOP/s of FP32.
@pytest.mark.parametrize(
    ("name", "tera"),
    [("a100", 19.5), ("rtx-3090", 35.6), ("rtx-4060-ti", 22.06), ("l40s", 91.6), ("h100", 66.9), ("rtx-5090", 104.8)],
)
def test_peak_agrees_with_the_data_sheet(name: str, tera: float) -> None:
    assert Target.find(name).fp32_flops == pytest.approx(tera * 1e12, rel=0.005)


def test_an_architecture_alone_has_no_peak() -> None:
    assert Target.find("sm_80").fp32_flops is None


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("sm_90a", "sm_90a"), ("sm_90", "sm_90a"), ("SM90", "sm_90a"), ("sm_100", "sm_100a"), ("sm_120a", "sm_120"),
        ("h200", "h200"), ("NVIDIA H200", "h200"), ("RTX 4060 Ti", "rtx-4060-ti"), ("rtx4060ti", "rtx-4060-ti"),
        ("NVIDIA GeForce RTX 5060 Ti", "rtx-5060-ti"), (" l40S ", "l40s"),
    ],
)  # fmt: skip
def test_find(spelling: str, name: str) -> None:
    assert Target.find(spelling).name == name


@pytest.mark.parametrize(("wrong", "meant"), [("h20", "h200"), ("rtx-4060", "rtx-4060-ti"), ("sm_91a", "sm_90a")])
def test_an_unknown_name_gets_the_closest(wrong: str, meant: str) -> None:
    with pytest.raises(InputError) as caught:
        Target.find(wrong)
    assert caught.value.hint == f"{meant}?" and "rtx-5090" in caught.value.message


@pytest.mark.parametrize("name", ["", "zzz", "\x1b[31mh200\x1b", "x" * 10**6, "../../etc/passwd", "sm_90a\x00"])
def test_a_hostile_name_is_refused_in_plain_letters(name: str) -> None:
    with pytest.raises(InputError) as caught:
        Target.find(name)
    assert caught.value.message.isprintable() and len(caught.value.message) < 400 and caught.value.hint


@pytest.mark.parametrize("target", Target.all(), ids=lambda t: t.name)
def test_a_target_file_comes_back(target: Target, tmp_path: Path) -> None:
    place = tmp_path / "target.json"
    target.save(place)
    assert Target.load(place) == target and hash(Target.load(place)) == hash(target)
    assert place.read_text() == target.dumps() and [place] == list(tmp_path.iterdir())
    assert json.loads(target.dumps())["architecture"] == target.architecture.name


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_figure_of_the_catalogue_has_its_type(name: str) -> None:
    """The catalogue is read without a schema, so this holds it to its types."""
    hints = get_type_hints(Architecture)
    for field, value in vars(Target.find(name).architecture).items():
        assert isinstance(value, get_origin(hints[field]) or hints[field]) and value, field
        for part in value if isinstance(value, tuple | frozenset) else (value,):
            assert isinstance(part, str) or (type(part) is int and (part > 0 or field == "compute_capability")), field
    assert Target.find(name).architecture.features <= set(get_args(Feature))


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"architecture": "sm_30"}, "/architecture"),
        ({"architecture": {"name": "sm_90a"}}, "/architecture"),
        ({"architecture": None}, "/architecture"),
        ({"sms": 0}, "/sms"),
        ({"sms": -1}, "/sms"),
        ({"sms": "132"}, "/sms"),
        ({"sms": True}, "/sms"),
        ({"sms": 1.5}, "/sms"),
        ({"name": "a[31m"}, "/name"),
        ({"name": ""}, "/name"),
        ({"name": "x" * 65}, "/name"),
        ({"name": 5}, "/name"),
        ({"driver": "580; rm"}, "/driver"),
        ({"driver": "580\n"}, "/driver"),
        ({"extra": 1}, "/extra"),
        ({"format": 2}, "/format"),
        ({"format": True}, ""),
        ({"source": "x" * 401}, "/source"),
        ({"source": "caf\u00e9"}, "/source"),
    ],
)
def test_a_wrong_target_file_is_refused_at_its_place(change: dict[str, object], pointer: str) -> None:
    text = json.dumps({"name": "mine", "architecture": "sm_90a"} | change, indent=1)
    with pytest.raises(DescriptorError) as caught:
        Target.loads(text, name="mine.json")
    error = caught.value
    assert error.pointer == pointer and "mine.json" in error.message and error.message.isprintable()
    assert text.split("\n")[error.line - 1].strip().startswith(f'"{pointer[1:]}"' if pointer else "{")


@pytest.mark.parametrize("text", ["", "[]", "{}", "nul", '{"name": "a"}', '{"name": "a", "name": "b"}', b"\xff"])
def test_text_that_is_no_target(text: str | bytes) -> None:
    with pytest.raises(DescriptorError):
        Target.loads(text)


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        Target.load(tmp_path / "missing.json")
    with pytest.raises(InputError, match="cannot read"):
        Target.load(tmp_path)
    with pytest.raises(InputError, match="cannot read"):
        Target.load("a\x00b")
    (tmp_path / "big.json").write_text(" " * 70_000)
    with pytest.raises(InputError, match="larger"):
        Target.load(tmp_path / "big.json")
    with pytest.raises(EnvironmentProblem, match="cannot write"):
        Target.find("h200").save(tmp_path / "no" / "folder.json")


class Device:
    """As the driver describes an H200."""

    name = "NVIDIA H200"
    compute_capability = (9, 0)
    sm_count = 132
    l2_bytes = 62914560
    memory_bytes = 150109880320
    shared_optin_bytes = 232448
    clock_mhz = 1980


def detect(monkeypatch: pytest.MonkeyPatch, found: object) -> Target:
    module = types.ModuleType("amk.runtime.device")
    module.device = lambda index: found  # type: ignore[attr-defined]
    module.probe = lambda: types.SimpleNamespace(driver="580.159.04")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "amk.runtime.device", module)
    return Target.detect()


def test_detect_adds_the_bandwidth_of_the_data_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    found, known = detect(monkeypatch, Device()), Target.find("h200")
    assert (found.name, found.architecture, found.bandwidth) == ("h200", known.architecture, known.bandwidth)
    assert found.driver == "580.159.04" and found.clock_hz == 1980000000
    assert Target.loads(found.dumps()) == found


def test_detect_of_a_device_that_only_looks_like_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Device()
    part.name, part.sm_count, part.memory_bytes = "NVIDIA H200 MIG 1g.18gb", 16, 18 << 30
    found = detect(monkeypatch, part)
    assert (found.name, found.sms, found.bandwidth) == ("NVIDIA H200 MIG 1g.18gb", 16, None)


def test_detect_with_a_hostile_or_poor_description(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = Device()
    odd.name, odd.l2_bytes = "\x1b[31m\u202eH200\n", 0
    found = detect(monkeypatch, odd)
    assert found.name.isprintable() and found.l2_bytes is None
    poor = types.SimpleNamespace(compute_capability=(8, 9))
    assert detect(monkeypatch, poor).name == "sm_89"


def test_detect_without_a_usable_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentProblem, match="no GPU") as caught:
        detect(monkeypatch, None)
    assert caught.value.hint
    old = Device()
    old.compute_capability = (7, 5)
    with pytest.raises(EnvironmentProblem, match=r"compute capability \(7, 5\)"):
        detect(monkeypatch, old)
    held = Device()
    held.shared_optin_bytes = 101376
    with pytest.raises(EnvironmentProblem, match="101376 bytes"):
        detect(monkeypatch, held)


@pytest.mark.parametrize(("registers", "threads", "shared", "blocks"), DRIVER)
def test_occupancy_is_the_drivers(registers: int, threads: int, shared: int, blocks: int) -> None:
    for name in ("sm_90a", "h200", "sm_100a"):  # capability 10.0 has the same limits
        assert occupancy(Target.find(name), threads, registers, shared).blocks_per_sm == blocks


# By the formula of cuda_occupancy.h and the table of the programming guide, each worked by hand.
@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "expected"),
    [
        ("sm_80", 256, 32, 0, Occupancy(8, 64, 1.0, "warps")),
        ("sm_80", 32, 16, 0, Occupancy(32, 32, 0.5, "blocks")),
        ("sm_80", 128, 255, 0, Occupancy(2, 8, 0.125, "registers")),
        ("sm_80", 128, 32, 55296, Occupancy(2, 8, 0.125, "shared")),  # 55296 + 1024 of 167936
        ("sm_86", 128, 32, 49152, Occupancy(2, 8, 8 / 48, "shared")),  # 50176 of 102400
        ("sm_86", 1024, 32, 0, Occupancy(1, 32, 32 / 48, "warps")),
        ("sm_86", 64, 32, 0, Occupancy(16, 32, 32 / 48, "blocks")),
        ("sm_89", 64, 32, 0, Occupancy(24, 48, 1.0, "warps")),
        ("sm_89", 32, 32, 0, Occupancy(24, 24, 0.5, "blocks")),
        ("sm_90a", 384, 168, 201728, Occupancy(1, 12, 12 / 64, "registers")),
        ("sm_90a", 512, 96, 0, Occupancy(1, 16, 0.25, "registers")),  # 20 warps fit, a second block needs 32
        ("sm_100a", 256, 64, 0, Occupancy(4, 32, 0.5, "registers")),
        ("sm_120", 256, 40, 0, Occupancy(6, 48, 1.0, "warps")),
        ("sm_120", 96, 168, 0, Occupancy(4, 12, 0.25, "registers")),
        ("sm_120", 33, 16, 0, Occupancy(24, 48, 1.0, "warps")),
    ],
)
def test_known_points(name: str, threads: int, registers: int, shared: int, expected: Occupancy) -> None:
    assert occupancy(Target.find(name), threads, registers, shared) == expected


# fp16 GEMM tile 128x256x64: four stages need 196,608 bytes, three need 147,456.
@pytest.mark.parametrize(
    ("name", "four", "three"),
    [("sm_80", 0, 1), ("sm_86", 0, 0), ("sm_89", 0, 0), ("sm_90a", 1, 1), ("sm_100a", 1, 1), ("sm_120", 0, 0)],
)
def test_stages_of_a_ring_against_each_limit(name: str, four: int, three: int) -> None:
    target = Target.find(name)
    assert occupancy(target, 256, 64, 4 * 49152).blocks_per_sm == four
    assert occupancy(target, 256, 64, 3 * 49152).blocks_per_sm == three
    assert occupancy(target, 256, 64, target.architecture.shared_optin).blocks_per_sm == 1
    too_much = occupancy(target, 256, 64, target.architecture.shared_optin + 1)
    assert (too_much.blocks_per_sm, too_much.limited_by) == (0, "shared")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_registers_of_a_block_of_512(name: str) -> None:
    target = Target.find(name)
    # 162 registers are given out as 168: 168 * 512 is more than the file, and so is 162 * 512 = 82,944.
    assert allocated_registers(target, 512, 162) == 168 * 512
    assert occupancy(target, 512, 162, 0) == Occupancy(0, 0, 0.0, "registers")
    assert occupancy(target, 512, 128, 0).blocks_per_sm == 1
    assert max_registers(target, 512) == 128


# Each scheduler has 16,384 registers: what counts is the warps of the fullest one. Measured in the prototype with
# setmaxnreg: 384 threads start with 168, and a lone warp beyond two warpgroups costs as much as a third.
@pytest.mark.parametrize(
    ("threads", "blocks", "most"),
    [
        (256, 1, 255), (288, 1, 168), (320, 1, 168), (384, 1, 168), (416, 1, 128), (512, 1, 128), (544, 1, 96),
        (128, 2, 255), (160, 2, 168), (192, 2, 168), (160, 3, 128), (96, 5, 128), (1024, 2, 32), (64, 32, 32),
    ],
)  # fmt: skip
def test_the_fullest_scheduler_decides(threads: int, blocks: int, most: int) -> None:
    for name in ("sm_80", "sm_90a", "sm_100a"):
        target = Target.find(name)
        assert max_registers(target, threads, blocks) == most
        assert allocated_registers(target, threads, most, blocks) <= 65536
        assert most == 255 or allocated_registers(target, threads, most + 1, blocks) > 65536


def test_the_reserved_kilobyte_counts_for_each_block() -> None:
    h200 = Target.find("h200")  # 228 KiB an SM
    for kib, blocks in ((227, 1), (113, 2), (75, 3), (56, 4)):
        assert occupancy(h200, 128, 32, kib * 1024).blocks_per_sm == blocks
        assert occupancy(h200, 128, 32, kib * 1024 + 128).blocks_per_sm == blocks - 1


def test_blocks_of_a_device_come_in_whole_clusters() -> None:
    h200 = Target.find("h200")
    assert [at_once(h200, 1, n) for n in (1, 2, 4, 8)] == [132, 132, 132, 128]
    assert at_once(h200, 3, 8) == 392 and at_once(Target.find("sm_90a"), 1) is None


def test_lumps_are_coarser_than_a_division() -> None:
    # 65,536 / 640 is 102.4, but 102 registers are given out as 104, and 104 * 640 does not fit.
    assert 65536 // 640 == 102
    assert max_registers(Target.find("sm_90a"), 640) == 96
    # One warp counts as four in the launch check.
    assert allocated_registers(Target.find("sm_90a"), 32, 255) == 4 * 32 * 256
    assert allocated_shared(Target.find("sm_90a"), 1) == 1152


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_blocks_that_no_launch_accepts(name: str) -> None:
    target = Target.find(name)
    assert occupancy(target, 1025, 16, 0) == Occupancy(0, 0, 0.0, "warps")
    assert occupancy(target, 128, 256, 0).limited_by == "registers"
    for wrong in ((0, 16, 0), (32, -1, 0), (32, 16, -1)):
        with pytest.raises(InputError):
            occupancy(target, *wrong)


TARGETS = st.sampled_from(Target.all())
THREADS, REGISTERS, SHARED = st.integers(1, 1024), st.integers(0, 255), st.integers(0, 232448)


@given(TARGETS, THREADS, REGISTERS, SHARED, st.integers(0, 128), st.integers(0, 64), st.integers(0, 9999))
def test_more_need_never_gives_more_blocks(
    target: Target, threads: int, registers: int, shared: int, more_t: int, more_r: int, more_s: int
) -> None:
    here = occupancy(target, threads, registers, shared).blocks_per_sm
    assert occupancy(target, threads + more_t, registers, shared).blocks_per_sm <= here
    assert registers == 0 or occupancy(target, threads, registers + more_r, shared).blocks_per_sm <= here
    assert occupancy(target, threads, registers, shared + more_s).blocks_per_sm <= here


@given(TARGETS, THREADS, REGISTERS, SHARED)
def test_what_is_resident_fits(target: Target, threads: int, registers: int, shared: int) -> None:
    found, a = occupancy(target, threads, registers, shared), target.architecture
    assert 0 <= found.blocks_per_sm <= a.blocks_per_sm and 0 <= found.fraction <= 1
    assert found.warps == found.blocks_per_sm * -(-threads // 32) <= a.warps_per_sm
    assert found.blocks_per_sm * threads * registers <= a.registers_per_sm
    assert found.blocks_per_sm * (shared + a.shared_reserved_per_block) <= a.shared_per_sm


@given(TARGETS, THREADS, st.integers(1, 4))
def test_max_registers_is_the_edge(target: Target, threads: int, blocks: int) -> None:
    edge = max_registers(target, threads, blocks)
    assert edge == 0 or occupancy(target, threads, edge, 0).blocks_per_sm >= blocks
    assert edge == 255 or occupancy(target, threads, edge + 1, 0).blocks_per_sm < blocks
