"""Devices are divided before a framework looks at them."""

import os

if os.environ.get("KERAS_BACKEND") == "tensorflow":
    import tensorflow as tf

    halves = [tf.config.LogicalDeviceConfiguration(), tf.config.LogicalDeviceConfiguration()]
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], halves)
if os.environ.get("KERAS_BACKEND") == "jax":
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
