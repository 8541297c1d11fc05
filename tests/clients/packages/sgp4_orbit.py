"""Compute the positions of a satellite over a day."""

import numpy as np
from sgp4.api import Satrec, SatrecArray, jday

FIRST = "1 25544U 98067A   19343.69339541  .00001764  00000-0  38792-4 0  9991"
SECOND = "2 25544  51.6439 211.2001 0007417  17.6667  85.6398 15.50103472202482"


def main():
    satellite = Satrec.twoline2rv(FIRST, SECOND)
    start, fraction = jday(2019, 12, 9, 12, 0, 0)
    minutes = np.arange(0, 1440, 2.0)
    days = np.full(minutes.size, start)
    errors, r, v = satellite.sgp4_array(days, fraction + minutes / 1440)
    print(errors.sum(), r.shape, np.round(r[::180], 3))
    height = np.linalg.norm(r, axis=1) - 6378.135
    speed = np.linalg.norm(v, axis=1)
    print(np.round([height.min(), height.max(), speed.mean()], 3))
    momentum = np.cross(r, v)
    tilt = np.degrees(np.arccos(momentum[:, 2] / np.linalg.norm(momentum, axis=1)))
    print(np.round([tilt.min(), tilt.max()], 3))
    crossings = np.flatnonzero((r[:-1, 2] < 0) & (r[1:, 2] >= 0))
    print(minutes[crossings])
    both = SatrecArray([satellite, satellite])
    errors, r, v = both.sgp4(days[:10], fraction + minutes[:10] / 1440)
    print(r.shape, np.round(np.linalg.norm(r[0] - r[1]), 5))


if __name__ == "__main__":
    main()
