"""Numbers in texts: digits of any script with the separators between them, as one value, hashed.

``2,650`` is 2650, ``8-1/2`` is 8.5, ``2.50`` is 2.5. A colon stays (``7:05``), so do several points (``1.2.3``).
A number of more than ``CHARACTERS_MAX`` characters is split. Numerals of China and Japan are read by their value, also
behind digits, and there those of Korea, too: ``三百`` is 300, ``二〇二四`` is 2024, ``3万5000`` is 35000, ``1.5億`` is
150000000, ``1,200만`` is 12000000.
"""

from __future__ import annotations

import numpy as np

from neardup.machine.compile import inlined, inner, kernel
from neardup.machine.kernels.hashing import BASE, mix64

# A number as characters: digits, and the separators between them.
_POINT, _COMMA, _COLON, CHARACTERS_MAX = 10, 11, 12, 40
NO_DIGIT = np.uint8(255)
# Part of a fraction that is kept: four digits.
_SCALE = 10_000
_FRACTION_MAX = 10**9
# A numeral is a digit, or POWER and the zeros of a power of ten; COUNTER is no numeral, but what counted things follow.
POWER, COUNTER, NO_NUMERAL = np.uint8(32), np.uint8(64), np.uint8(255)
# The zeros from which a power counts all that stands before it, and the bound of what it may count.
_MYRIAD, _COUNTED_MAX = 4, 10**5


@inlined
def next_hash(h, code):
    """Return the polynomial of a word or number with one more code point or character."""
    return h * BASE + np.uint64(code) + np.uint64(1)


def hash_of_digits(number: str) -> int:
    """Return the hash of a number in ASCII digits, 64 bits."""
    return int(_hash_of_characters(np.array([int(digit) for digit in number], np.uint8)))


@kernel("u8[]")
def _hash_of_characters(characters):
    return _hash_of(characters, len(characters))


@inner
def number_at(codes, i, digits, numerals, characters):
    """Return where the number that begins at i ends, with the numerals behind it, and its hash; ``characters`` is
    scratch."""
    end, count = _digits_at(codes, i, digits, characters)
    token = _hash_of(characters, count)
    if end == len(codes) or not POWER <= numerals[codes[end]] < COUNTER:
        return end, token
    value, decimals = _value_of(characters, count)
    if value >= 0:
        counted, whole = _numeral_behind(value, decimals, codes, end, digits, numerals, characters)
        if counted > end:
            return counted, whole
    return end, mix64(token + np.uint64(numerals[codes[end]]))  # another number than without the numeral


@inner
def _digits_at(codes, i, digits, characters):
    """Return where the digits that begin at i end, and how many characters their number has."""
    end, scaled = _fraction(codes, i, digits)
    if end:
        return end, _spell(scaled, characters)
    n, count = np.int64(len(codes)), np.int64(0)
    while i < n and count < CHARACTERS_MAX:
        digit = digits[codes[i]]
        if digit != NO_DIGIT:
            characters[count] = digit
        else:
            separator = _separator(codes[i])
            if not separator or i + 1 == n or digits[codes[i + 1]] == NO_DIGIT:
                break
            characters[count] = separator
        count += 1
        i += 1
    return i, _plain(characters, count)


@inner
def _value_of(characters, count):
    """Return the value of a number without its point, and the digits behind that; -1 if it is no such number."""
    value, decimals = np.int64(0), np.int64(-1)
    for j in range(count):
        if characters[j] == _POINT and decimals < 0:
            decimals = np.int64(0)
        elif characters[j] >= _POINT or value >= _FRACTION_MAX:
            return np.int64(-1), np.int64(0)
        else:
            value = value * 10 + np.int64(characters[j])
            decimals += decimals >= 0
    return value, max(decimals, np.int64(0))


@inner
def numeral_at(codes, i, digits, numerals, characters):
    """Return where the digits and numerals that begin at i end, and the hash of their value."""
    return _numeral_behind(np.int64(-1), np.int64(0), codes, i, digits, numerals, characters)


@inner
def _numeral_behind(current, decimals, codes, i, digits, numerals, characters):
    """Return where the digits and numerals that go on at i end, and the hash of their value; ``current`` stands before
    them, with so many decimals, and is -1 for nothing."""
    total, section, has = np.int64(0), np.int64(0), current >= 0
    current = max(current, np.int64(0))
    while i < len(codes):
        digit, numeral = digits[codes[i]], numerals[codes[i]]
        digit = numeral if digit == NO_DIGIT else digit
        if digit < POWER:
            if current >= _FRACTION_MAX:
                break
            current, has = current * 10 + np.int64(digit), True
        elif digit >= COUNTER:
            if not (has and _separator(codes[i]) == _COMMA and i + 1 < len(codes) and digits[codes[i + 1]] < POWER):
                break
        else:
            zeros = np.int64(digit - POWER)
            if decimals > zeros or max(section, current // _power(decimals)) >= _COUNTED_MAX:
                break
            if zeros < _MYRIAD:
                section += (current if has else 1) * _power(zeros - decimals)
            else:
                section = section * _power(decimals) + current if section or has else np.int64(1)
                total, section = total + section * _power(zeros - decimals), np.int64(0)
            current, decimals, has = np.int64(0), np.int64(0), False
        i += 1
    return i, _hash_of(characters, _spell_whole(total + section + current, characters))


@inlined
def _power(zeros):
    power = np.int64(1)
    for _ in range(zeros):
        power *= 10
    return power


@inlined
def _separator(code):
    if code == 0x2E or code == 0x66B:  # full stop, Arabic decimal separator
        return _POINT
    if code == 0x2C or code == 0x66C or code == 0x27 or code == 0x2019:  # comma, Arabic and Swiss thousands separators
        return _COMMA
    return _COLON if code == 0x3A else 0


@inner
def _fraction(codes, i, digits):
    """Return where the fraction that begins at i ends, and its value in 1 / 10,000; 0 and 0 if there is none.

    ``1/2`` and ``8-1/2`` are fractions, ``11/20/1986`` is none.
    """
    whole, n = np.int64(0), np.int64(len(codes))
    if i > 0 and codes[i - 1] == 0x2F:  # the rest of a date
        return np.int64(0), np.int64(0)
    over, j = _integer(codes, i, digits)
    if j + 1 < n and codes[j] == 0x2D and digits[codes[j + 1]] != NO_DIGIT:
        whole = over
        over, j = _integer(codes, j + 1, digits)
    if not (j + 1 < n and (codes[j] == 0x2F or codes[j] == 0x2044) and digits[codes[j + 1]] != NO_DIGIT):
        return np.int64(0), np.int64(0)
    under, j = _integer(codes, j + 1, digits)
    is_date = j + 1 < n and codes[j] == 0x2F and digits[codes[j + 1]] != NO_DIGIT
    if is_date or under == 0 or max(whole, over, under) >= _FRACTION_MAX:
        return np.int64(0), np.int64(0)
    return j, whole * _SCALE + (over * _SCALE + under // 2) // under


@inner
def _integer(codes, i, digits):
    """Return the integer that begins at i, ``_FRACTION_MAX`` for a greater one, and where it ends."""
    value = np.int64(0)
    while i < len(codes) and digits[codes[i]] != NO_DIGIT:
        value = min(value * 10 + np.int64(digits[codes[i]]), np.int64(_FRACTION_MAX))
        i += 1
    return value, i


@inner
def _spell_whole(value, characters):
    """Write a whole number as characters; return how many."""
    count, power = np.int64(0), np.int64(1)
    while power <= value // 10:
        power *= 10
    while power:
        characters[count] = value // power
        value, power, count = value % power, power // 10, count + 1
    return count


@inner
def _spell(scaled, characters):
    """Write a number in 1 / 10,000 as characters; return how many."""
    count = _spell_whole(scaled // _SCALE, characters)
    rest, power = scaled % _SCALE, np.int64(_SCALE // 10)
    if rest:
        characters[count] = _POINT
        count += 1
    while rest:
        characters[count] = rest // power
        rest, power, count = rest % power, power // 10, count + 1
    return count


@inner
def _plain(characters, count):
    """Drop the commas between thousands, and the zeros at the end of a decimal fraction; return the new length."""
    commas, points, others, since, regular = 0, 0, 0, 0, True
    for j in range(count):
        if characters[j] < _POINT:
            since += 1
            continue
        if characters[j] == _COMMA:
            regular &= points == 0 and (since == 3 if commas else since <= 3)
            commas += 1
        else:
            regular &= not commas or points > 0 or since == 3
            points += characters[j] == _POINT
            others += characters[j] == _COLON
        since = 0
    regular &= points > 0 or since == 3
    if commas and regular and not others and points < 2:
        kept = np.int64(0)
        for j in range(count):
            if characters[j] != _COMMA:
                characters[kept] = characters[j]
                kept += 1
        count, commas = kept, 0
    if points == 1 and not commas and not others:
        while characters[count - 1] == 0:
            count -= 1
        if characters[count - 1] == _POINT:
            count -= 1
    return count


@inlined
def _hash_of(characters, count):
    h = np.uint64(0)
    for j in range(count):
        h = next_hash(h, characters[j])
    return mix64(~h)  # not the hash of a word
