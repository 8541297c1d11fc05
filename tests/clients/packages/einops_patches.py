"""Rearrange a batch of images."""

import numpy as np
from einops import einsum, pack, rearrange, reduce, repeat, unpack


def main():
    rng = np.random.default_rng(25)
    images = rng.random((6, 96, 96, 3))
    print(rearrange(images, "b h w c -> h (b w) c").shape)
    tiles = rearrange(images, "(b1 b2) h w c -> (b1 h) (b2 w) c", b1=2)
    print(np.round(tiles[::64, ::96].sum(axis=-1), 4))
    patches = rearrange(images, "b (h p) (w q) c -> b (h w) (p q c)", p=16, q=16)
    print(patches.shape, np.round(patches.mean(axis=(1, 2)), 5))
    pooled = reduce(images, "b (h 8) (w 8) c -> b h w c", "max")
    print(np.round(pooled[0, ::4, ::4, 0], 4))
    gray = reduce(images, "b h w c -> b h w", "mean")
    print(np.round(np.std(gray, axis=(1, 2)), 5))
    wide = repeat(gray[0], "h w -> h (2 w)")
    print(wide.shape, np.round(wide.sum(), 3))
    gram = einsum(patches, patches, "b i d, b j d -> b i j")
    print(np.round(gram[0, :3, :3], 3))
    packed, shapes = pack([images, gray], "b h w *")
    print(packed.shape, [part.shape for part in unpack(packed, shapes, "b h w *")])


if __name__ == "__main__":
    main()
