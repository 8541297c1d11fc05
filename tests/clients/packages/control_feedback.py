"""Compute the responses of a mass on a spring, and design a regulator."""

import control as ct
import numpy as np


def main():
    m, c, k = 1.0, 0.4, 2.0
    a = np.array([[0.0, 1.0], [-k / m, -c / m]])
    b, output = np.array([[0.0], [1 / m]]), np.array([[1.0, 0.0]])
    system = ct.ss(a, b, output, 0)
    t = np.linspace(0, 20, 500)
    response = ct.step_response(system, t)
    y = response.outputs
    print(np.round([y.max(), y[-1], t[np.argmax(y)]], 4))
    gain, _, poles = ct.lqr(system, np.diag([10.0, 1.0]), np.array([[0.5]]))
    print(np.round(gain, 4), np.round(np.sort_complex(poles), 4))
    closed = ct.ss(a - b @ gain, b, output, 0)
    force = np.where(t > 5, np.sin(2 * t), 0.0)
    forced = ct.forced_response(closed, t, force)
    print(np.round(forced.outputs[::100], 5))
    omega = np.logspace(-1, 1, 200)
    reply = ct.frequency_response(ct.ss2tf(system), omega)
    magnitude = np.abs(np.squeeze(reply.frdata))
    print(np.round([magnitude.max(), omega[np.argmax(magnitude)]], 4))
    print(np.round(np.linalg.det(ct.ctrb(a, b)), 4), np.round(ct.margin(2 * ct.ss2tf(system))[1], 3))


if __name__ == "__main__":
    main()
