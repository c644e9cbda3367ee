"""Kafka's on-disk formats: bytes in, plain values and numpy arrays out.

The package opens no file, reads no clock and logs nothing. Callers hand in bytes (or a function that fills a buffer)
and get typed values back; damaged bytes come back as `kafka_log.corruption.Corruption`, never as an exception.
"""

from tidegauge.kafka_log.kernel_cache import ignore_numbas_config_file, use_kernel_cache

ignore_numbas_config_file()
use_kernel_cache()
