"""NumPy arrays in polars, pyarrow and h5py."""

import h5py
import numpy as np
import polars as pl
import pyarrow as pa


def main() -> None:
    values = np.arange(50_000) * 0.5
    groups = np.arange(50_000) % 3

    frame = pl.DataFrame({"value": values, "group": groups})
    print(frame.group_by("group").agg(pl.col("value").sum()).sort("group").rows())
    print(
        pl.Series(values).filter(pl.Series(values > 24_990)).to_list()[:3], pl.from_numpy(values.reshape(-1, 2)).shape
    )

    table = pa.table({"value": values, "group": groups})
    print(table.schema.types, table["value"][-1], pa.array(values, mask=values > 3).null_count)

    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        data = file.create_dataset("data", data=values.reshape(100, 500))
        data[0, groups[:500] == 1] = values[:167]
        row = np.empty(500)
        data.read_direct(row, np.s_[0])
        print(row[:8], data[:, 0].sum())


if __name__ == "__main__":
    main()
