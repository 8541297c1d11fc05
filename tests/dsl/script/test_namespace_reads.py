"""Tests of the detection of programs that read the dictionary of a NumPy module."""

import pytest

from weft.dsl.script.namespace_reads import reads_namespace


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nnames = np.__dict__\n",
        "import numpy\nfor name, value in vars(numpy).items():\n    print(name)\n",
        "import numpy.linalg as la\nprint(la.__dict__)\n",
        "from numpy import linalg as la\nprint(vars(la))\n",
        "import numpy as np\nprint(np.fft.__dict__)\n",
        "import numpy as np\ndef names():\n    return sorted(vars(np))\n",
        "def names():\n    import numpy as np\n    return np.__dict__\n",
    ],
)
def test_readers(text: str) -> None:
    assert reads_namespace(compile(text, "program", "exec"))


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np\nprint(np.sin(1))\n",
        "import argparse, numpy as np\nprint(vars(argparse.ArgumentParser().parse_args()))\n",
        "import numpy as np\nclass Own:\n    def __init__(self, **names):\n        self.__dict__.update(names)\n",
        "import os\nimport numpy as np\nprint(os.__dict__)\n",
        "import numpy as np\ndef names(value):\n    return vars(value)\n",
    ],
)
def test_other_programs(text: str) -> None:
    assert not reads_namespace(compile(text, "program", "exec"))
