"""Every rule, one file each, in the order of the codes."""

from __future__ import annotations

from amk.harness.rule import Rule
from amk.harness.rules.amk002_undefined import Undefined
from amk.harness.rules.amk003_duplicate import Duplicate
from amk.harness.rules.amk004_types import Types
from amk.harness.rules.amk005_operands import Operands
from amk.harness.rules.amk006_rows import Rows
from amk.harness.rules.amk007_target import OnTarget
from amk.harness.rules.amk008_fragment import Fragment
from amk.harness.rules.amk009_domain import Domain
from amk.harness.rules.amk090_suppressed_error import SuppressedError
from amk.harness.rules.amk091_unused_suppression import UnusedSuppression
from amk.harness.rules.amk101_threads import Threads
from amk.harness.rules.amk102_grid import Grid
from amk.harness.rules.amk103_shared_memory import SharedMemory
from amk.harness.rules.amk104_registers import Registers
from amk.harness.rules.amk105_occupancy import Occupancy
from amk.harness.rules.amk108_role_registers import RoleRegisters
from amk.harness.rules.amk201_out_of_bounds import OutOfBounds
from amk.harness.rules.amk202_shared_bounds import AMK202
from amk.harness.rules.amk203_register_bounds import RegisterBounds
from amk.harness.rules.amk204_overflow import Overflow
from amk.harness.rules.amk205_alignment import Alignment
from amk.harness.rules.amk206_uninitialised_shared import AMK206
from amk.harness.rules.amk207_uninitialised_register import AMK207
from amk.harness.rules.amk208_division import Division
from amk.harness.rules.amk209_tensor_map import TensorMaps
from amk.harness.rules.amk301_shared_race import AMK301
from amk.harness.rules.amk302_divergent_barrier import AMK302
from amk.harness.rules.amk303_copy_not_landed import AMK303
from amk.harness.rules.amk304_global_race import AMK304
from amk.harness.rules.amk305_partial_warp import AMK305
from amk.harness.rules.amk306_mixed_atomic import AMK306
from amk.harness.rules.amk307_deadlock import AMK307
from amk.harness.rules.amk308_exit_in_flight import AMK308
from amk.harness.rules.amk309_proxy_fence import AMK309
from amk.harness.rules.amk310_phases import AMK310
from amk.harness.rules.amk311_wgmma_registers import AMK311
from amk.harness.rules.amk312_cluster_exit import AMK312
from amk.harness.rules.amk313_unpublished import AMK313
from amk.harness.rules.amk314_flag_order import AMK314
from amk.harness.rules.amk315_endless_wait import AMK315
from amk.harness.rules.amk316_not_resident import AMK316
from amk.harness.rules.amk317_uneven_operand import AMK317
from amk.harness.rules.amk318_absent_lane import AMK318
from amk.harness.rules.amk401_unwritten_output import AMK401
from amk.harness.rules.amk402_written_twice import AMK402
from amk.harness.rules.amk404_access import AccessContract
from amk.harness.rules.amk501_uncoalesced import AMK501
from amk.harness.rules.amk502_bank_conflict import AMK502
from amk.harness.rules.amk503_occupancy import AMK503
from amk.harness.rules.amk504_waves import AMK504
from amk.harness.rules.amk505_narrow_access import AMK505
from amk.harness.rules.amk506_unused_padding import AMK506

__all__ = ["RULES"]

RULES: tuple[type[Rule], ...] = (
    Undefined,
    Duplicate,
    Types,
    Operands,
    Rows,
    OnTarget,
    Fragment,
    Domain,
    SuppressedError,
    UnusedSuppression,
    Threads,
    Grid,
    SharedMemory,
    Registers,
    Occupancy,
    RoleRegisters,
    OutOfBounds,
    AMK202,
    RegisterBounds,
    Overflow,
    Alignment,
    AMK206,
    AMK207,
    Division,
    TensorMaps,
    AMK301,
    AMK302,
    AMK303,
    AMK304,
    AMK305,
    AMK306,
    AMK307,
    AMK308,
    AMK309,
    AMK310,
    AMK311,
    AMK312,
    AMK313,
    AMK314,
    AMK315,
    AMK316,
    AMK317,
    AMK318,
    AMK401,
    AMK402,
    AccessContract,
    AMK501,
    AMK502,
    AMK503,
    AMK504,
    AMK505,
    AMK506,
)
