"""The public names of the runtime.

Most modules, such as those that need llvmlite or CUDA, are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.runtime.device import Buffer, BufferRequests, Device, Registered, ReleasedBuffer
from weft.runtime.devices import (
    SEVERAL_DEVICES,
    default_device,
    device,
    devices,
    get_device,
    select_device,
    set_default_device,
)
from weft.runtime.errors import (
    CacheWarning,
    CompileError,
    CudaError,
    DeviceLostError,
    DeviceMismatchError,
    DeviceNotFoundError,
    HostFallbackWarning,
    KernelFault,
    MissingAssemblerError,
    OptimizerWarning,
    OutOfMemoryError,
    PerformanceWarning,
    SettingError,
    VerificationError,
    WeftError,
    public_error,
    warn_user,
)
from weft.runtime.lazy_names import checked_imports, lazy_names
from weft.runtime.listening import BuildNote, LaunchNote, Listening, building, kernel_number, launch_heard
from weft.runtime.object_code import REGISTER_AIMS, ObjectCode, RowLimits
from weft.runtime.services import DATA, Event, HostKind, HostMemory, Stream, address_of, array_over
from weft.runtime.settings import (
    BETWEEN,
    FIXED,
    IMMEDIATE,
    LEAST,
    OVERRIDES,
    RAISED,
    VARIABLES,
    key_of,
    limit_on,
    override,
    raise_immediate,
    reset_immediate,
    set_variables,
    setting,
    thread_count,
)
from weft.runtime.uninterruptible import uninterruptible

if TYPE_CHECKING:
    from weft.runtime.allocation_report import (
        counted,
        largest_buffers,
        show_cell,
        show_file,
        show_location,
        source_line,
    )
    from weft.runtime.background import Request, prepare, submit, waiting
    from weft.runtime.bandwidth import copy_bandwidth
    from weft.runtime.cache import DiskCache, disk_cache, key_material, obtain_entry, source_digest
    from weft.runtime.cpu.buffer_slot import put_buffer
    from weft.runtime.cpu.host_device import CpuDevice
    from weft.runtime.cpu.llvm_library import load_llvm
    from weft.runtime.cpu.native import HEADER, TUPLE_ITEMS, TUPLE_LENGTH, TYPE, Builtin, Text, python_function
    from weft.runtime.cpu.operators import put_call, put_operators
    from weft.runtime.cpu.pool import workers
    from weft.runtime.cpu.python_threads import BLOCK_BYTES, divide_axis, run_calls
    from weft.runtime.cpu.random.generators import DRAWN, Draw, draw_bytes, draw_into, draw_many, read_draw
    from weft.runtime.cpu.random.positions import MOST_REJECTED, Position, position_tables, take_integers, take_position
    from weft.runtime.cpu.random.random_streams import (
        MOST_AT_ONCE,
        StreamOperand,
        fill_from_stream,
        launch_with_streams,
        take_stream,
    )
    from weft.runtime.cpu.simt import SimtDevice
    from weft.runtime.cpu.slots import slots_of
    from weft.runtime.cpu.trace_log import tracing
    from weft.runtime.cpu.ufuncs import find_inner_loop, make_map_ufunc, make_reduction_ufunc, numpy_function
    from weft.runtime.cuda.cuda_device import CudaDevice
    from weft.runtime.cuda.foreign_code import ForeignCode, register_foreign
    from weft.runtime.cuda.linker import PTX_VERSIONS, assemble, disassemble
    from weft.runtime.cuda.probe import probe
    from weft.runtime.cuda.toolkit import find_libdevice, find_tool
    from weft.runtime.failures import report_failure, try_compiling, write_report
    from weft.runtime.fork_locks import renew_in_children
    from weft.runtime.host_fallback import is_gpu, report_fallback
    from weft.runtime.launches import Launch, PreparedLaunches
    from weft.runtime.llvm_files import read_llvm
    from weft.runtime.replacement import Replacement

__getattr__ = lazy_names(globals(), checked_imports(__file__))
