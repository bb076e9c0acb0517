"""Access to the internals of kafka-python: only this package uses private names of the client.

Every other module uses the public ``kafka``, ``kafka.errors`` and ``kafka.admin``, and the functions of this package.
Each docstring says what the function needs from the client and links the source line of the tested version. An import
raises ``ConfigError`` if another version is installed.

No change affects the whole process. Each change of the client's behaviour applies to one object:

- ``connections``: a connection returns the bytes received before its end, so that the reason of a refused login is
  read. A fast connection reads 256 kB at a time. The loop of a client raises each timeout as an error without reference
  cycles.
- ``fetches``: one consumer gives each batch of a fetch to our own reader, and fetches while the worker is busy.
- ``groups``: a member keeps a join that completed between two polls, and shows the client's view of its membership.
- ``batches``: records reach the buffer of a producer as whole batches, and one future stands for all of a batch.
- ``transactions``: the requests of the client's calls, with a deadline; the client itself waits without a limit (rule
  5).
"""

import kafka

from neardup.errors import ConfigError

TESTED_VERSION = "3.0.12"

if kafka.__version__ != TESTED_VERSION:
    raise ConfigError(
        f"kafka-python {kafka.__version__} is installed, but neardup relies on names inside {TESTED_VERSION}: install "
        f"kafka-python=={TESTED_VERSION}"
    )
