"""A native stand-in for the CUDA driver, for tests and benchmarks without a GPU.

Its functions can be called like the driver's functions.
"""

from tests.stand_in.driver import Call, StandIn, make_device
from tests.stand_in.running import Launched, RunningDevice, RunningStandIn

__all__ = ["Call", "Launched", "RunningDevice", "RunningStandIn", "StandIn", "make_device"]
