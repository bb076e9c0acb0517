"""A scan of lines of flat JSON objects: it finds id, text and timestamp, and copies ids and unescaped texts.

The scan accepts a part of JSON alone, and validates what it accepts. A line that it accepts has these values under any
parser of JSON. A line that it does not accept may be valid: the caller gives it to a parser. Accepted is an object

- whose values are strings, short numbers and literals, without objects and lists inside;
- whose names are strings without escapes, none of the three twice;
- whose text is a string, with any escapes except lone surrogates;
- whose id is a string without escapes or a whole number; if it is null or absent, the key of the line is the id;
- whose timestamp is a number, a string without escapes, or null or absent. Escapes of a title stay in its span.

The bytes outside of the text are valid UTF-8. The bytes of the text are not checked: the reader of texts does that.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.bits import MASK_BITS, lowest_bit, mask_of_breaks
from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.escapes import unescape
from neardup.machine.lanes import copy_bytes
from neardup.machine.words import WORD_BYTES, word_at

# Zeros that every array of bytes must have behind its content: the kernels read so many bytes at a time.
PADDING = MASK_BITS + 1
ID, TEXT, TIME, COLLECTION, SOURCE, URL, TITLE, OTHER = range(8)
# Kinds of a timestamp: none, a number that was computed here, a number for a better parser, a string.
ABSENT, NUMBER, DIGITS, STRING = 0, 1, 2, 3
_INTEGER, _FRACTION, _NULL, _LITERAL, _ESCAPED = 4, 5, 6, 7, 8

_QUOTE, _BACKSLASH, _COLON, _COMMA = np.uint8(0x22), np.uint8(0x5C), np.uint8(0x3A), np.uint8(0x2C)
_OPEN, _CLOSE, _MINUS, _POINT = np.uint8(0x7B), np.uint8(0x7D), np.uint8(0x2D), np.uint8(0x2E)
_BLANK, _TAB, _NEWLINE, _RETURN = np.uint8(0x20), np.uint8(0x09), np.uint8(0x0A), np.uint8(0x0D)
_ZERO, _NINE, _U = np.uint8(0x30), np.uint8(0x39), np.uint8(0x75)
_HIGH_BITS, _NO_BITS = np.uint64(0x8080808080808080), np.uint64(0)
# Longer numbers are left to a parser: whole numbers of this length fit 64 bits.
_INTEGER_BYTES_MAX, _FRACTION_BYTES_MAX = 18, 24
# Whole numbers up to here are exact as a double, as are the powers of ten with so many zeros.
_EXACT_MAX, _DECIMALS_MAX = np.uint64(1 << 53), 9
_WHOLE_MAX = np.uint64(10**17)  # ten times this fits 64 bits
# Times of this age with more digits: seconds of 23 to 31 bits, and 33 bits of their fraction.
_SECONDS_MIN, _SECONDS_MAX = np.uint64(1 << 22), np.uint64(1 << 31)
_FRACTION_BITS, _FRACTION_UNIT = np.uint64(33), 2.0**-33
# The letters of escapes and what they mean.
_ESCAPES = np.zeros(256, np.uint8)
for _letter, _meaning in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_letter] = _meaning
_TRUE, _FALSE, _NONE = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))


@kernel("(const u8[], i64[]), (const u8[], i64[]), bool[], (const u8[], i64[]), Scanned")
def scan_lines(lines, keys, has_key, names, found):
    """Scan n lines; returns the index of the first that is not accepted, n if all are.

    ``lines``, ``keys`` and ``names`` (of the fields, in order) are pairs of bytes and starts. ``found`` has the
    arrays of ``neardup_workers.outside.readers.json.columns.Scanned``; it is complete only if all lines are accepted.
    """
    data, starts = lines
    row = found.scratch
    text_end = id_end = np.int64(0)
    for i in range(len(starts) - 1):
        index, text_end = _scan_object(data, starts[i], starts[i + 1], names, row, found.texts, text_end)
        if index != starts[i + 1]:
            return i
        key, first, size = keys[1][i], row[2 * ID], row[2 * ID + 1] - row[2 * ID]
        key_size = keys[1][i + 1] - key
        if first >= 0:
            _copy(data, first, size, found.ids, id_end)
        elif has_key[i] and _is_utf8(keys[0], key, key + key_size):
            size = key_size
            _copy(keys[0], key, size, found.ids, id_end)
        else:
            return i
        found.misnamed[i] = has_key[i] and not _equal(keys[0], key, key_size, found.ids, id_end, size)
        id_end += size
        found.id_starts[i + 1], found.text_starts[i + 1] = id_end, text_end
        for k in range(2 * (OTHER - COLLECTION)):
            found.spans[i, k] = row[2 * COLLECTION + k]
        found.time_kinds[i] = row[2 * OTHER]
        found.time_spans[i, 0], found.time_spans[i, 1] = row[2 * TIME], row[2 * TIME + 1]
        if found.time_kinds[i] == NUMBER:
            found.times[i], is_exact = _number(data, row[2 * TIME], row[2 * TIME + 1])
            if not is_exact:
                found.time_kinds[i] = DIGITS
    return len(starts) - 1


@inner
def _scan_object(data, index, end, names, row, texts, at):
    """Return the end of the object of a line, -1 if it is not accepted, and the end of ``texts``.

    ``row`` gets the spans of the fields but the text in ``data`` (-1: absent) and the kind of the timestamp.
    """
    nothing = np.int64(-1)
    row[:] = nothing
    row[2 * OTHER] = ABSENT
    seen = 0
    index = _skip_blanks(data, index, end)
    if index >= end or data[index] != _OPEN:
        return nothing, at
    index = _skip_blanks(data, index + 1, end)
    while True:
        if index >= end or data[index] != _QUOTE:
            return nothing, at
        first = index + 1
        last, is_escaped = _string_end(data, first, end)
        if last < 0 or is_escaped:
            return nothing, at
        field = _field(data, first, last, names)
        index = _skip_blanks(data, last + 1, end)
        if index >= end or data[index] != _COLON or (field != OTHER and seen & (1 << field)):
            return nothing, at
        index = _skip_blanks(data, index + 1, end)
        if index >= end or not _is_utf8(data, first, last):
            return nothing, at
        if field == TEXT and data[index] == _QUOTE:
            index, at = _copy_string(data, index + 1, end, texts, at)
        else:
            first = index
            index, kind = _value_end(data, index, end)
            if field != OTHER and index >= 0:
                index = _note(row, field, kind, first, index)
        if index < 0:
            return nothing, at
        seen |= 1 << field
        index = _skip_blanks(data, index, end)
        if index >= end:
            return nothing, at
        if data[index] == _CLOSE:
            index = _skip_blanks(data, index + 1, end)
            return (index if index == end and seen & (1 << TEXT) else nothing), at
        if data[index] != _COMMA:
            return nothing, at
        index = _skip_blanks(data, index + 1, end)


@inlined
def _note(row, field, kind, first, end):
    """Note the span of a value that is no text; returns its end, -1 for a kind that is not accepted."""
    if (kind == STRING and field != TEXT) or (kind == _ESCAPED and field == TITLE):
        row[2 * field], row[2 * field + 1] = first + 1, end - 1
    elif field >= SOURCE:
        return np.int64(-1) if kind == _ESCAPED else end
    elif (kind == _INTEGER and field != TEXT) or (kind == _FRACTION and field == TIME):
        row[2 * field], row[2 * field + 1] = first, end
    elif kind != _NULL or field == TEXT:
        return np.int64(-1)
    if field == TIME and kind != _NULL:
        row[2 * OTHER] = STRING if kind == STRING else NUMBER
    return end


@inlined
def _skip_blanks(data, index, end):
    while index < end and (
        data[index] == _BLANK or data[index] == _NEWLINE or data[index] == _RETURN or data[index] == _TAB
    ):
        index += 1
    return index


@inlined
def _field(data, first, end, names):
    """Return the field of this name."""
    for field in range(OTHER):
        name = names[1][field]
        if _equal(data, first, end - first, names[0], name, names[1][field + 1] - name):
            return field
    return OTHER


@inlined
def _equal(data, first, size, others, other, other_size):
    """Whether two stretches of bytes are equal."""
    if size != other_size:
        return False
    for i in range(size):  # noqa: SIM110 - compiled code has no all()
        if data[first + i] != others[other + i]:
            return False
    return True


@inlined
def _copy(data, first, size, out, at):
    """Copy bytes; up to ``MASK_BITS`` bytes behind them are overwritten."""
    for i in range(0, size, MASK_BITS):
        copy_bytes(data, first + i, out, at + i)


@inner
def _string_end(data, index, end):
    """Return the index of the quote that ends a string, -1 if it is not accepted, and whether it has escapes."""
    is_escaped = False
    while index < end:
        breaks = mask_of_breaks(data, index)
        if breaks == _NO_BITS:
            index += MASK_BITS
            continue
        index += np.int64(lowest_bit(breaks))
        if index >= end:
            break
        if data[index] == _QUOTE:
            return index, is_escaped
        if data[index] != _BACKSLASH or index + 1 >= end or _ESCAPES[data[index + 1]] == 0:
            break
        is_escaped = True
        index += 2
    return np.int64(-1), is_escaped


@inner
def _copy_string(data, index, end, out, at):
    """Copy a string without its escapes; returns the index behind its quote, -1 if it is not accepted, and the end of
    the copy."""
    while index < end:
        breaks = mask_of_breaks(data, index)
        copy_bytes(data, index, out, at)
        if breaks == _NO_BITS:
            index, at = index + MASK_BITS, at + MASK_BITS
            continue
        size = np.int64(lowest_bit(breaks))
        if data[index + size] == _BACKSLASH and data[index + size + 1] == _U:
            escape = index + size
            index, at = unescape(data, index, out, at)
            if index != escape:
                continue
        else:
            index, at = index + size, at + size
        if index >= end:
            break
        if data[index] == _QUOTE:
            return index + 1, at
        if data[index] != _BACKSLASH or index + 1 >= end:
            break
        if data[index + 1] == _U:
            index, at = _code_point(data, index + 2, end, out, at)
            if index < 0:
                break
        else:
            out[at] = _ESCAPES[data[index + 1]]
            if out[at] == 0:
                break
            index, at = index + 2, at + 1
    return np.int64(-1), at


@inner
def _code_point(data, index, end, out, at):
    """Write the code point of an escape whose digits begin here, in UTF-8; returns the index behind it, -1 for a lone
    surrogate, and the end of the copy."""
    nothing = np.int64(-1)
    code = _hexadecimal(data, index, end)
    if code < 0 or 0xDC00 <= code < 0xE000:
        return nothing, at
    index += 4
    if 0xD800 <= code < 0xDC00:
        if index + 2 > end or data[index] != _BACKSLASH or data[index + 1] != _U:
            return nothing, at
        low = _hexadecimal(data, index + 2, end)
        if not 0xDC00 <= low < 0xE000:
            return nothing, at
        index += 6
        code = 0x10000 + ((code - 0xD800) << 10) + low - 0xDC00
    if code < 0x80:
        out[at] = code
        return index, at + 1
    size = 2 if code < 0x800 else 3 if code < 0x10000 else 4
    for i in range(size - 1, 0, -1):
        out[at + i] = 0x80 | (code & 0x3F)
        code >>= 6
    out[at] = ((0xF00 >> size) & 0xFF) | code
    return index, at + size


@inlined
def _hexadecimal(data, index, end):
    """Return the value of four hexadecimal digits, -1 if they are none."""
    code = np.int64(0)
    if index + 4 > end:
        return np.int64(-1)
    for i in range(4):
        digit = np.int64(data[index + i])
        if 0x30 <= digit <= 0x39:
            digit -= 0x30
        elif 0x41 <= (digit & 0xDF) <= 0x46:
            digit = (digit & 0xDF) - 0x41 + 10
        else:
            return np.int64(-1)
        code = code * 16 + digit
    return code


@inner
def _value_end(data, index, end):
    """Return the end of a value, -1 if it is not accepted, and its kind."""
    first = data[index]
    if first == _QUOTE:
        last, is_escaped = _string_end(data, index + 1, end)
        if last < 0 or not _is_utf8(data, index + 1, last):
            return np.int64(-1), _ESCAPED
        return last + 1, _ESCAPED if is_escaped else STRING
    if first == _MINUS or _ZERO <= first <= _NINE:
        return _number_end(data, index, end)
    for word, kind in ((_TRUE, _LITERAL), (_FALSE, _LITERAL), (_NONE, _NULL)):
        size = len(word)
        if index + size <= end and _equal(data, index, size, word, 0, size):
            return index + size, kind
    return np.int64(-1), _LITERAL


@inner
def _number_end(data, index, end):
    """Return the end of a number, -1 if it is not accepted, and its kind. Not accepted are exponents, and numbers that
    begin with -0."""
    nothing = np.int64(-1)
    first = index
    is_negative = data[index] == _MINUS
    index += is_negative
    digits = index
    while index < end and _ZERO <= data[index] <= _NINE:
        index += 1
    if index == digits or (data[digits] == _ZERO and (index > digits + 1 or is_negative)):
        return nothing, _INTEGER
    kind, size_max = _INTEGER, _INTEGER_BYTES_MAX
    if index < end and data[index] == _POINT:
        kind, size_max = _FRACTION, _FRACTION_BYTES_MAX
        index += 1
        digits = index
        while index < end and _ZERO <= data[index] <= _NINE:
            index += 1
        if index == digits:
            return nothing, kind
    if index - first > size_max or (index < end and (data[index] | 0x20) == 0x65):
        return nothing, kind
    return index, kind


@inlined
def _number(data, index, end):
    """Return the value of a number, and whether it is the double that is nearest to its digits."""
    is_negative = data[index] == _MINUS
    whole, decimals, is_fraction = np.uint64(0), 0, False
    for i in range(index + is_negative, end):
        if data[i] == _POINT:
            is_fraction = True
        elif whole < _WHOLE_MAX:
            whole = whole * np.uint64(10) + np.uint64(data[i] - _ZERO)
            decimals += is_fraction
    if whole >= _WHOLE_MAX or decimals > _DECIMALS_MAX:
        return 0.0, False
    power = np.uint64(1)
    for _ in range(decimals):
        power *= np.uint64(10)
    if whole < _EXACT_MAX:  # the quotient of two exact doubles
        value = np.float64(whole) / np.float64(power)
    else:
        seconds, rest = whole // power, (whole % power) << _FRACTION_BITS
        if not _SECONDS_MIN <= seconds < _SECONDS_MAX:
            return 0.0, False
        # 55 bits or more, of which the last one says whether anything follows: the conversion rounds once.
        bits = (seconds << _FRACTION_BITS) | (rest // power) | np.uint64(rest % power != 0)
        value = np.float64(bits) * _FRACTION_UNIT
    return (-value if is_negative else value), True


@inner
def _is_utf8(data, index, end):
    """Whether a stretch of bytes is UTF-8."""
    while index < end:
        if index + WORD_BYTES <= end and word_at(data, index) & _HIGH_BITS == _NO_BITS:
            index += WORD_BYTES
            continue
        lead = data[index]
        if lead < 0x80:
            index += 1
            continue
        size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        if lead < 0xC2 or lead > 0xF4 or index + size > end:
            return False
        least = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
        greatest = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
        if not least <= data[index + 1] <= greatest:
            return False
        for i in range(2, size):
            if data[index + i] & 0xC0 != 0x80:
                return False
        index += size
    return True
