"""Words that stand for a number, mark a correction, negate, or say nothing; abbreviations of wires; by language."""

from __future__ import annotations

# The words for 2, 3, 4 and so on; a dash for a word that means something else too (French "six" is English "six").
_COUNTED = (
    "two three four five six seven eight nine ten eleven twelve",
    "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "deux trois quatre cinq - sept huit neuf dix onze douze",
    "dos tres cuatro cinco seis siete ocho nueve diez - doce",
    "due tre quattro cinque - sette otto nove dieci undici dodici",
    "dois três quatro - - sete oito - dez - doze",
    "twee drie - vijf zes zeven - negen tien - twaalf",
    "два три четыре пять шесть семь восемь девять десять",
    "- ثلاثة أربعة خمسة ستة سبعة ثمانية تسعة عشرة",
    "두 세 네 다섯 여섯 일곱 여덟 아홉 열",
    "두명 세명 네명 다섯명 여섯명 일곱명 여덟명 아홉명 열명",
)
# Words for powers of ten, by their zeros: five million is 5 and 1000000.
_SCALES = {
    2: "hundred hundreds hundert cientos centinaia centenas honderd сотни مئات",
    3: "thousand thousands tausend tausende mille milliers mil miles mila migliaia milhares duizend duizenden тысяча "
    "тысячи тысяч ألف آلاف",
    5: "lakh lakhs",
    6: "million millions mln mn millionen mio millón millones milione milioni milhão milhões miljoen миллион миллиона "
    "миллионов млн مليون",
    7: "crore crores",
    9: "billion billions bln bn milliarde milliarden mrd milliard milliards miliardo miliardi bilhão bilhões miljard "
    "миллиард миллиарда миллиардов млрд مليار",
    12: "trillion trillions billionen billón billones bilioni biljoen триллион триллиона триллионов تريليون",
}
NUMBER_WORDS: dict[str, int] = (
    {"nil": 0, "zero": 0, "one": 1}
    | {word: number for row in _COUNTED for number, word in enumerate(row.split(), 2) if word != "-"}
    | {word: 10**zeros for zeros, row in _SCALES.items() for word in row.split()}
)

# Numerals of China and Japan: digits, and powers of ten by their zeros; and what is counted by one of them alone. Those
# of Korea count behind digits.
HAN_DIGITS = ("〇零", "一", "二两兩", "三", "四", "五", "六", "七", "八", "九")
HAN_POWERS = {"十": 1, "百": 2, "千": 3, "万": 4, "萬": 4, "亿": 8, "億": 8, "兆": 12}
HANGUL_POWERS = {"십": 1, "백": 2, "천": 3, "만": 4, "억": 8, "조": 12}
HAN_COUNTED = "人名月日年岁歳死伤傷例件"

_CORRECTIONS = """
corrected correction corrects correcting corrections corrigendum erratum refiled
korrektur korrigiert berichtigung berichtigt rectificatif rectification corrigé
corrección rectificación corregido correzione rettifica correção retificação correctie rectificatie
исправление исправлено уточнение поправка تصحيح تصويب
"""
CORRECTIONS = tuple(_CORRECTIONS.split())

# English contractions (``doesn't``) are read by their end.
_NEGATIONS = """
not no never neither nor without
nicht kein keine keinen keinem keiner nie niemals ohne
ne pas jamais sans aucun aucune
no nunca jamás tampoco sin ningún ninguna
non mai senza nessun nessuno nessuna
não nem sem nenhum nenhuma
niet geen nooit zonder
не нет ни никогда без
لا لم لن ليس ليست دون
"""
NEGATIONS = frozenset(_NEGATIONS.split())

# Abbreviations of English wires -> the word that each stands for.
ABBREVIATIONS = {
    "avg": "average", "cts": "cents", "div": "dividend", "dlr": "dollar",
    "dlrs": "dollars", "govt": "government", "mth": "month", "mthly": "monthly",
    "mths": "months", "oper": "operating", "pct": "percent", "qtly": "quarterly", "qtrly": "quarterly",
    "rev": "revenue", "revs": "revenues", "shr": "share", "shrs": "shares", "yr": "year", "yrs": "years",
}  # fmt: skip

# What a caption says of its picture, and forms of companies: they say nothing of the story.
_SILENT = """
photo photos pictured picture image
foto fotos bild abgebildet photographie illustration imagen imagem immagine
afbeelding gambar фото илл иллюстрация صورة 사진 사진은
corp corporation gmbh holdings inc incorporated llc ltd plc
"""
SILENT = frozenset(_SILENT.split())
