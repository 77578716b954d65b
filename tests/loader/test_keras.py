"""Keras on each of its backends, TensorFlow and JAX: each in a process of its own, because each asks for one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RUNS = {
    "tensorflow": ({"KERAS_BACKEND": "tensorflow"}, ["check_keras.py", "check_tensorflow.py", "check_layers.py"]),
    "torch": ({"KERAS_BACKEND": "torch"}, ["check_keras.py", "check_layers.py"]),
    "jax": ({"KERAS_BACKEND": "jax"}, ["check_keras.py", "check_layers.py", "check_jax.py"]),
    "keras-2": ({"TF_USE_LEGACY_KERAS": "1"}, ["check_legacy.py"]),
}


@pytest.mark.parametrize("name", RUNS)
def test_on_backend(name):
    environment, files = RUNS[name]
    paths = [str(HERE / "backends" / file) for file in files]
    options = ["-q", "--no-header", "-o", "python_files=check_*.py", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *paths],
        cwd=HERE.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]
