"""What a reader finds in a file."""

from neardup.pairs.json_lines import Fields
from neardup_workers.outside.process.stop import Stop
from neardup_workers.outside.readers.reader import EntryReader
from neardup_workers.outside.settings.files import Reading


def found(path, content, fields=Fields(), **options):  # noqa: B008 - immutable
    path.write_bytes(content)
    reader = EntryReader(Reading(**options), fields, Stop(), lambda part: None)
    return [entry.found for entry in reader.read([str(path)]) if entry is not None]
