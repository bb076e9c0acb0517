"""Bytes of pages, mail and feeds -> characters, as browsers read them.

Labels are those of the standard (WHATWG Encoding): a label means the larger charset whose bytes stand under it, so
``shift_jis`` is Windows-31J, ``euc-kr`` Windows-949, ``gb2312`` GB 18030, and ``iso-8859-1`` Windows-1252. Charsets
that browsers do not read, such as UTF-7 in mail, are read by the codecs of Python.
"""

from __future__ import annotations

import codecs
import re

# The charset in a Content-Type.
CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';]{1,40})", re.IGNORECASE)
# Bytes at the start of a page that may declare its charset (the standard says 1,024; real pages are late).
_DECLARATION_BYTES = 4096
# Stands for bytes that are no character in the charset.
REPLACED = "\ufffd"
# The charset of a page that declares none and is not UTF-8, as in browsers.
_DEFAULT_CHARSET = "cp1252"
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META = re.compile(rb"<meta[\s/][^>]*+")
_META_CHARSET = re.compile(rb"charset\s*+=\s*+[\"']?+\s*+([^\s\"'/>;]{1,40})")
_XML_ENCODING = re.compile(rb"\sencoding\s*+=\s*+[\"']([^\s\"']{1,40})")

# Characters beyond ASCII from which on a text of a charset with several bytes a character is not UTF-8 by accident.
_UTF8_MIN = 8
# Codecs of Python that are no charsets; some of them need time that grows with the square of the size.
_NO_CHARSETS = frozenset(("idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"))
# Codec -> the labels of the standard for what it reads. Three codecs of Python lack characters of the standard: the
# larger one is named. ``x-user-defined`` in a page is Windows-1252.
_LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "iso8859-3": "csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3",
    "iso8859-4": "csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4",
    "iso8859-5": "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "iso8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e "
    "iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "iso8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 "
    "iso_8859-7:1987 sun_eu_greek",
    "iso8859-8": "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 "
    "iso_8859-8:1988 visual csiso88598i iso-8859-8-i logical",
    "iso8859-10": "csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "cp874": "dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874",
    "cp1250": "cp1250 windows-1250 x-cp1250",
    "cp1251": "cp1251 windows-1251 x-cp1251",
    "cp1252": "ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 "
    "iso_8859-1 iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252 x-user-defined",
    "cp1253": "cp1253 windows-1253 x-cp1253",
    "cp1254": "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 "
    "windows-1254 x-cp1254",
    "cp1255": "cp1255 windows-1255 x-cp1255",
    "cp1256": "cp1256 windows-1256 x-cp1256",
    "cp1257": "cp1257 windows-1257 x-cp1257",
    "cp1258": "cp1258 windows-1258 x-cp1258",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk gb18030",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jis_2004": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso2022_jp_ext": "csiso2022jp iso-2022-jp",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 "
    "windows-949",
    "utf-16-be": "unicodefffe utf-16be",
    "utf-16-le": "csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
# Charsets of which nothing is UTF-8 by mistake: UTF-8 itself, and those with a zero byte in each letter.
_UNICODE = frozenset(("utf-8", "utf-16-be", "utf-16-le"))
# Charsets with several bytes a character, in which a short text may be UTF-8 by accident.
_WIDE = frozenset(("big5hkscs", "cp932", "cp949", "euc_jis_2004", "gb18030"))


def codec_of(label: str) -> str | None:
    """Return Python's codec of a charset as browsers understand its label, ``None`` if it is unknown.

    >>> codec_of(" Shift_JIS"), codec_of("latin1"), codec_of("rot13")
    ('cp932', 'cp1252', None)
    """
    known = _CODECS.get(label.strip(" \t\r\n\f").lower())
    if known is not None:
        return known
    try:
        name = codecs.lookup(label).name
        b"a".decode(name, "replace")  # a codec that decodes no bytes to text is refused here
    except (LookupError, ValueError):
        return None
    return None if name.replace("-", "_") in _NO_CHARSETS else name


def decoded(payload: bytes, charset: str | None = None) -> str:
    """Return the characters of a page, by its byte order mark, the named charset, its declaration, or its bytes.

    Never raises: an unknown charset is ignored, and bytes that are invalid in the charset become U+FFFD. A page that is
    UTF-8 is read so, whatever its server and its declaration say. One that is named UTF-8 and is not, in most
    characters beyond ASCII, is read in the charset that its bytes suggest.

    >>> decoded(b"<meta charset=shift_jis>\\x93\\xfa")[-1]
    '日'
    """
    for mark, name in _MARKS.items():
        if payload.startswith(mark):
            return payload[len(mark) :].decode(name, "replace")
    known = (codec_of(charset) if charset else None) or _declared(payload)
    # Many sites moved to UTF-8 and kept the old name; a text in another charset is not UTF-8 by accident.
    characters_min = 0 if known is None else _UTF8_MIN if known in _WIDE else 1
    if known not in _UNICODE and _is_utf8(payload, characters_min):
        known = "utf-8"
    text = payload.decode(known or _detected(payload), "replace")
    # A character that is cut off at the end says nothing of the charset.
    replaced = text.rstrip(REPLACED).count(REPLACED) if known == "utf-8" else 0
    if 2 * replaced > sum(character > "\x7f" for character in text):
        return payload.decode(_detected(payload), "replace")
    return text


_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


def _declared(payload: bytes) -> str | None:
    """Return the codec that a page declares, as the HTML standard searches it; ``None`` if it declares none."""
    head = _COMMENT.sub(b"", payload[:_DECLARATION_BYTES].lower()).lstrip()
    match = _XML_ENCODING.search(head[: head.find(b">")]) if head.startswith(b"<?xml") else None
    for meta in _META.finditer(head):
        if match is None and (b"http-equiv" in meta[0] or b"content" not in meta[0]):
            match = _META_CHARSET.search(meta[0])
    name = match and codec_of(match[1].decode("ascii", "replace"))
    # A declaration that can be read as ASCII is not in UTF-16.
    return "utf-8" if name and name.startswith("utf-16") else name


def _detected(payload: bytes) -> str:
    """Return the codec that the bytes suggest; without the library that guesses, what browsers take."""
    try:
        from resiliparse.parse.encoding import detect_encoding
    except ImportError:
        return _DEFAULT_CHARSET
    return codec_of(detect_encoding(payload) or "") or _DEFAULT_CHARSET


def _is_utf8(payload: bytes, characters_min: int) -> bool:
    """Whether bytes are UTF-8, and so many characters of it at least are beyond ASCII."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return False
    return not characters_min or sum(character > "\x7f" for character in text) >= characters_min
