"""A native stand-in for CUDA's driver: functions with the driver's signatures, for tests and benchmarks without a GPU."""

from tests.stand_in.driver import Call, StandIn, make_device

__all__ = ["Call", "StandIn", "make_device"]
