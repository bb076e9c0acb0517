"""Everything that this transport needs from inside kafka-python: the only place that uses private names of the client.

Every other module uses ``kafka``, ``kafka.errors`` and ``kafka.admin``, which are public, and the functions of this
package. Each docstring says what the function needs from the client and links the source line of the tested version.
``check`` lists all of it and compares the list with the installed client before the first connection.

Nothing is replaced for the whole process. What the client does differently here, it does for one object:

- ``connections``: a connection hands out the bytes that came before its end, so that the reason of a refused login is
  read. A fast one reads 256 kB at a time. The loop of a client raises each timeout as an error that no cycle holds.
- ``fetches``: one consumer gives each batch of a fetch to our own reader, and fetches while the worker is busy.
- ``groups``: one member keeps a join that completed between two polls, and shows what the client knows of its place.
- ``transactions``: the requests of the client's own calls, which wait without a limit (rule 5), with a deadline.

The setting ``fast_fetch`` switches off what is there for speed alone: the fast connections, our reader of batches, and
the fetches ahead. The transport obeys the same laws without them.
"""

from workers.transport.kafka.client_internals.check import TESTED_VERSION, check_client

__all__ = ["TESTED_VERSION", "check_client"]
