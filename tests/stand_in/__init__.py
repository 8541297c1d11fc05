"""A native stand-in for CUDA's driver: functions with the driver's signatures, for tests and benchmarks without a GPU."""

from tests.stand_in.driver import Call, StandIn, make_device
from tests.stand_in.running import Launched, RunningDevice, RunningStandIn

__all__ = ["Call", "Launched", "RunningDevice", "RunningStandIn", "StandIn", "make_device"]
