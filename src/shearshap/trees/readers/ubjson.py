"""Universal Binary JSON, as XGBoost writes it: https://ubjson.org.

    {            an object: pairs of a key and a value, up to }
    [            an array: values, up to ]
    [ $ d # L 3  an array of three float32, one behind the other

Numbers are big-endian. Arrays of one type come as numpy arrays, without a look at each number.
"""

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

#: How one number is packed, by the letter of its type, in the words of `struct`.
NUMBERS = {
    "i": struct.Struct(">b"),
    "U": struct.Struct(">B"),
    "I": struct.Struct(">h"),
    "l": struct.Struct(">i"),
    "L": struct.Struct(">q"),
    "d": struct.Struct(">f"),
    "D": struct.Struct(">d"),
}

CONSTANTS = {"T": True, "F": False, "Z": None}


def parse(data: bytes) -> Any:
    """Return the value that some bytes stand for."""
    return _Reader(data).value()


@dataclass
class _Reader:
    data: bytes
    place: int = 0

    def value(self) -> Any:
        return self._value_of(self._letter())

    def _value_of(self, letter: str) -> Any:
        if letter == "{":
            return self._object()
        if letter == "[":
            return self._array()
        if letter == "S":
            return self._text()
        if letter == "C":
            return self._letter()
        if letter in CONSTANTS:
            return CONSTANTS[letter]
        if letter in NUMBERS:
            return self._number(NUMBERS[letter])
        raise ValueError(f"no type of UBJSON has the letter {letter!r}")

    def _object(self) -> dict[str, Any]:
        members = {}
        while not self._skips("}"):
            key = self._text()
            members[key] = self.value()
        return members

    def _array(self) -> Any:
        if self._skips("$"):
            letter = self._letter()
            self._letter()  # the # before the length
            return self._numbers(NUMBERS[letter].format, self.value())
        if self._skips("#"):
            return [self.value() for _ in range(self.value())]

        values = []
        while not self._skips("]"):
            values.append(self.value())
        return values

    def _number(self, packed: struct.Struct) -> float:
        (number,) = packed.unpack_from(self.data, self.place)
        self.place += packed.size
        return number  # type: ignore[no-any-return]

    def _numbers(self, kind: str, count: int) -> Any:
        numbers = np.frombuffer(self.data, kind, count, self.place)
        self.place += numbers.nbytes
        return numbers

    def _text(self) -> str:
        length = self.value()
        start = self.place
        self.place += length
        return str(self.data[start : self.place], "utf-8")

    def _letter(self) -> str:
        self.place += 1
        return chr(self.data[self.place - 1])

    def _skips(self, letter: str) -> bool:
        """Return whether a letter comes next, and step over it."""
        if self.data[self.place] != ord(letter):
            return False
        self.place += 1
        return True
