"""`TF_MEMORY_ALLOCATION`: how much of a GPU TensorFlow may take, so that something is left for others.

Comes in: the environment. Goes out: nothing; TensorFlow is configured. Called when `rowmill.loader.tensorflow` is
imported, because it is too late once TensorFlow has initialised its devices. Without a GPU only the value is checked.
"""

from __future__ import annotations

import math
import os
import subprocess
from typing import Any

from rowmill.errors import ArgumentError, warn

VARIABLE = "TF_MEMORY_ALLOCATION"
DEVICE_VARIABLE = "TF_VISIBLE_DEVICE"


def limit_memory(tf: Any) -> None:
    """Do what the two variables say. Without `TF_MEMORY_ALLOCATION` TensorFlow is left as it is."""
    value = parse_allocation(os.environ.get(VARIABLE))
    if value is None:
        return
    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        return
    number = int(os.environ.get(DEVICE_VARIABLE, "0"))
    if not 0 <= number < len(devices):
        raise ArgumentError(f"{DEVICE_VARIABLE} is {number}, and there are {len(devices)} GPUs; wanted one of them")
    megabytes = value if value >= 1 else value * free_megabytes(number)
    try:
        tf.config.set_logical_device_configuration(
            devices[number], [tf.config.LogicalDeviceConfiguration(memory_limit=int(megabytes))]
        )
    except RuntimeError:  # TensorFlow's way of saying that it is too late
        warn(
            f"{VARIABLE} comes too late: TensorFlow has initialised its devices; import rowmill.loader.tensorflow "
            f"before anything is computed",
        )


def parse_allocation(text: str | None) -> float | None:
    """A number of MB, or a fraction below 1; None if the variable is not set."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value > 0 or not math.isfinite(value):
        raise ArgumentError(
            f"{VARIABLE} is {text!r}; wanted megabytes such as '8192', or a fraction of the GPU's free memory such as "
            f"'0.5'"
        )
    return value


def free_megabytes(number: int) -> float:
    """Free memory of a GPU, as its driver's tool says it."""
    command = ["nvidia-smi", f"--id={number}", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError) as error:
        raise ArgumentError(
            f"{VARIABLE} is a fraction, and nvidia-smi does not say how much of GPU {number} is free ({error}); give "
            f"megabytes instead"
        ) from error
