"""A picture of a scene, rendered by ray marching.

Signed distance functions describe spheres, a torus and a floor. The picture has shadows and shading.
"""

import numpy as np

LIGHT = np.array([0.6, 0.7, -0.4]) / np.sqrt(0.6**2 + 0.7**2 + 0.4**2)


def distance(p):
    x, y, z = p[..., 0], p[..., 1], p[..., 2]
    ball = np.sqrt(x**2 + (y - 0.2) ** 2 + (z - 3) ** 2) - 1.0
    small = np.sqrt((x - 1.3) ** 2 + (y + 0.4) ** 2 + (z - 2.2) ** 2) - 0.4
    ring = np.sqrt((np.sqrt((x + 1.4) ** 2 + (z - 2.6) ** 2) - 0.6) ** 2 + (y + 0.6) ** 2) - 0.2
    return np.minimum(np.minimum(ball, small), np.minimum(ring, y + 0.8))


def march(origin, direction, steps, far):
    travelled = np.zeros(direction.shape[:-1])
    for _ in range(steps):
        gap = distance(origin + travelled[..., None] * direction)
        travelled = np.where((gap > 1e-4) & (travelled < far), travelled + gap, travelled)
    return travelled


def normals(p):
    h = 1e-4
    parts = [distance(p + h * axis) - distance(p - h * axis) for axis in np.eye(3)]
    n = np.stack(parts, axis=-1)
    return n / np.sqrt((n * n).sum(axis=-1, keepdims=True) + 1e-30)


def main(size):
    width, height = size, size * 3 // 4
    x, y = np.meshgrid(np.linspace(-1, 1, width), np.linspace(0.75, -0.75, height))
    direction = np.stack([x, y, np.full_like(x, 1.5)], axis=-1)
    direction = direction / np.sqrt((direction**2).sum(axis=-1, keepdims=True))
    depth = march(np.zeros(3), direction, 40, 20.0)
    hit = depth < 20.0
    point = depth[..., None] * direction
    n = normals(point)
    shadow = march(point + 1e-2 * n, np.broadcast_to(LIGHT, point.shape), 20, 5.0) < 5.0
    diffuse = np.maximum((n * LIGHT).sum(axis=-1), 0) * np.where(shadow, 0.3, 1.0)
    sky = 0.5 + 0.5 * direction[..., 1]
    shade = np.where(hit, 0.15 + 0.85 * diffuse, sky)
    image = (255 * np.clip(shade, 0, 1) ** 0.45).astype(np.uint8)
    return depth.clip(0, 20), shade.mean(), hit.mean(), np.bincount(image.ravel() // 32, minlength=8) // 100
