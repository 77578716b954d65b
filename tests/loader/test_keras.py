"""Keras on each of its backends, TensorFlow and JAX: each in a process of its own, because each asks for one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
EACH = ["check_keras.py", "check_keras_settings.py", "check_growing.py", "check_layers.py"]
RUNS = {
    "tensorflow": ({"KERAS_BACKEND": "tensorflow"}, [*EACH, "check_tensorflow.py"]),
    "torch": ({"KERAS_BACKEND": "torch"}, EACH),
    "jax": ({"KERAS_BACKEND": "jax"}, [*EACH, "check_jax.py"]),
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
