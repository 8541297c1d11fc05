"""Tests that the list of passes is complete, and that each pass leaves a valid kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.codegen import kernels
from weft import codegen
from weft.codegen import KernelBuilder, resolve_target, verify_kernel
from weft.codegen.pipeline import PIPELINES, find_passes, run_passes

# Files that are not passes of a pipeline: they are called while kernels are built, or by several passes.
OTHERS = set(
    "describe_shapes conditions find_common_loops find_guards find_interleaved find_merged_axis find_private_arrays find_spans find_uniform flatten_branches reduction_identities forward_variables "
    "index_steps linear_index merge_kernels known_multiples mark_addresses merge_pointers rewrite share_strides split_at_barriers store_branch_results "
    "thread_steps unwrap_indices".split()
)


def test_each_pass_is_listed_with_a_sentence() -> None:
    files = {p.stem for p in (Path(codegen.__file__).parent / "passes").glob("*.py")} - {"__init__"}
    listed = [each for passes in PIPELINES.values() for each in passes]
    names = {each.name for each in listed} - {"serialize_inner_loops"}
    assert names == files - OTHERS, "list a pass in a group of pipeline.py, and another file of passes/ in OTHERS"
    assert all(each.sentence.endswith(".") and each.sentence[0].isupper() for each in listed)


def test_kernels_of_users_are_expanded_only() -> None:
    b = KernelBuilder("own", level="threaded")
    kernel = b.finish()
    names = [each.name for each in find_passes(kernel, kernels.GPU)]
    assert names == ["expand_bfloat16", "expand_complex", "expand_ops", "expand_warp_reduce", "expand_division"]
    assert [each.name for each in find_passes(kernel, kernels.HOST)] == names[:3]


@pytest.mark.parametrize("name", ["host", "sm_90", "simt:sm_90", "simt:sm_90:sanitized"])
def test_every_pass_leaves_a_valid_kernel(name: str) -> None:
    target = resolve_target(name)
    for kernel in (kernels.line("f8"), kernels.line("c8"), kernels.rows("f4", ("add", "argmin")), kernels.scan("i8")):
        expected = run_passes(kernel, target)
        for each in find_passes(kernel, target):
            kernel = each.run(kernel, target)
            verify_kernel(kernel)
        assert codegen.print_kernel(kernel) == codegen.print_kernel(expected)
