"""Functions of a linked image for Arm or RISC-V: their size, their stack, and what they call."""
import struct
from collections import namedtuple

PROGBITS, SYMTAB = 1, 2
ALLOCATED = 2
FUNCTION = 2
# Machines, as in an ELF header.
ARM, RISC_V = 40, 243


class NotMeasured(Exception):
    """There is nothing to compare with a limit."""


Section = namedtuple("Section", "name kind flags address offset size link")
Function = namedtuple("Function", "name address size frame calls pointers")


class Image:
    """A linked 32-bit ELF file."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        (self.machine,) = struct.unpack_from("<H", self.bytes, 18)
        (table,) = struct.unpack_from("<I", self.bytes, 32)
        size, count, names = struct.unpack_from("<HHH", self.bytes, 46)
        headers = [struct.unpack_from("<10I", self.bytes, table + i * size) for i in range(count)]
        strings = headers[names][4]
        self.sections = [Section(self.text(strings + h[0]), h[1], h[2], h[3], h[4], h[5], h[6]) for h in headers]

    def text(self, offset):
        return self.bytes[offset : self.bytes.index(b"\0", offset)].decode()

    def flash(self):
        return sum(s.size for s in self.sections if s.kind == PROGBITS and s.flags & ALLOCATED)

    def symbols(self):
        table = next(s for s in self.sections if s.kind == SYMTAB)
        names = self.sections[table.link].offset
        for at in range(table.offset, table.offset + table.size, 16):
            name, value, size, info, _, section = struct.unpack_from("<IIIBBH", self.bytes, at)
            yield self.text(names + name), value, size, info & 15, section

    def word(self, address):
        """What is in flash there, if anything."""
        for s in self.sections:
            if s.kind == PROGBITS and s.flags & ALLOCATED and s.address <= address <= s.address + s.size - 4:
                return struct.unpack_from("<I", self.bytes, s.offset + address - s.address)[0]
        return None

    def functions(self):
        code = next(s for s in self.sections if s.name == ".text")
        decode = {ARM: decode_arm, RISC_V: decode_risc_v}[self.machine]
        data = set()  # ranges between $d and the next mapping symbol
        marks = sorted((value, name) for name, value, _, _, _ in self.symbols() if name[:2] in ("$t", "$x", "$d"))
        for (start, name), (end, _) in zip(marks, marks[1:] + [(code.address + code.size, "")]):
            if name.startswith("$d"):
                data.update(range(start & ~1, end, 2))
        found = {}
        for name, value, size, kind, _ in self.symbols():
            if kind == FUNCTION and code.address <= value < code.address + code.size:
                found[value & ~1] = max((size, name), found.get(value & ~1, (0, "")))
        # Code in assembly may have no size: it goes up to the next function.
        starts = sorted(found)
        for start, end in zip(starts, starts[1:] + [code.address + code.size]):
            size, name = found[start]
            found[start] = (size or end - start, name)
        return {
            address: decode(self, name, address, size, self.bytes[code.offset + address - code.address :], data)
            for address, (size, name) in found.items()
        }


def decode_arm(_, name, address, size, code, data):
    """Frame and calls of a function: every push and subtraction from the stack pointer counts.

    So does every jump or call to where a register points, except a return.
    """
    frame, calls, pointers, at = 0, set(), 0, 0
    while at < size:
        here = address + at
        (first,) = struct.unpack_from("<H", code, at)
        at += 2
        if here in data:
            continue
        if first >> 11 < 0b11101:
            if first >> 9 == 0b1011010:  # push
                frame += 4 * bin(first & 0x1FF).count("1")
            elif first >> 7 == 0b101100001:  # sub sp, #n
                frame += 4 * (first & 0x7F)
            elif first & 0xFF07 == 0x4700 and first != 0x4770:  # bx or blx register, except bx lr
                pointers += 1
            elif first >> 11 == 0b11100:  # b
                offset = (first & 0x7FF) << 1
                calls.add(here + 4 + (offset - 0x1000 if offset & 0x800 else offset))
            continue
        (second,) = struct.unpack_from("<H", code, at)
        at += 2
        immediate = (first >> 10 & 1) << 11 | (second >> 12 & 7) << 8 | second & 0xFF
        if first == 0xE92D:  # push.w
            frame += 4 * bin(second).count("1")
        elif first == 0xF84D and second & 0x0FFF == 0x0D04:  # push of one register
            frame += 4
        elif first & 0xFFBF == 0xED2D:  # vpush
            frame += 4 * (second & 0xFF)
        elif first & 0xFBFF == 0xF2AD:  # subw sp, #n
            frame += immediate
        elif first & 0xFBFF == 0xF1AD and second & 0x0F00 == 0x0D00:  # sub.w sp, #n
            frame += expand(immediate)
        elif first >> 11 == 0b11110 and second & 0xC000 in (0x8000, 0xC000) and second & 0x1000:  # b.w, bl
            sign = first >> 10 & 1
            high = [1 - ((second >> bit & 1) ^ sign) for bit in (13, 11)]
            offset = sign << 24 | high[0] << 23 | high[1] << 22 | (first & 0x3FF) << 12 | (second & 0x7FF) << 1
            calls.add(here + 4 + (offset - (1 << 25) if sign else offset))
    calls = {target for target in calls if not address <= target < address + size}
    return Function(name, address, size, frame, calls, pointers)


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def gathered(value, *fields):
    """The signed constant whose bits lie scattered in an instruction: (from, how many, to), the highest first."""
    constant = sum((value >> low & ((1 << width) - 1)) << to for low, width, to in fields)
    _, width, to = fields[0]
    return signed(constant, to + width)


# Registers.
ZERO, RA, SP = 0, 1, 2


def decode_risc_v(image, name, address, size, code, data):
    """The same for RV32IC.

    A jump to where a register points does not count as one to a pointer if it is a return, a far call whose address
    the instruction before it makes, or one within the function, through a table at an address made just before.
    """
    frame, calls, pointers, at = 0, set(), 0, 0
    pages, addresses = {}, {}  # values of registers last set by auipc; by lui and addi
    while at < size:
        here = address + at
        (short,) = struct.unpack_from("<H", code, at)
        long = short & 3 == 3 and here not in data
        (word,) = struct.unpack_from("<I", code, at) if long else (short,)
        at += 4 if long else 2
        if here in data:
            continue
        moved, jump = 0, None
        if long:
            opcode, to, of = word & 0x7F, word >> 7 & 31, word >> 15 & 31
            upper, immediate = word & 0xFFFFF000, signed(word >> 20, 12)
            if opcode == 0x17:  # auipc
                pages[to] = here + upper
            elif opcode == 0x37:  # lui
                addresses[to] = upper
            elif opcode == 0x13 and word >> 12 & 7 == 0 and of == to == SP:  # addi sp, sp, n
                moved = immediate
            elif opcode == 0x13 and word >> 12 & 7 == 0 and of in addresses:  # addi
                addresses[to] = addresses[of] + immediate
            elif opcode == 0x33 and to == SP:
                raise NotMeasured(f"{name} moves the stack pointer by a register at {here:#x}")
            elif opcode == 0x6F:  # jal
                calls.add(here + gathered(word, (31, 1, 20), (21, 10, 1), (20, 1, 11), (12, 8, 12)))
            elif opcode == 0x67 and of in pages:  # auipc and jalr: a far call
                calls.add(pages.pop(of) + immediate & 0xFFFFFFFF)
            elif opcode == 0x67:
                jump = to, of
        else:
            quadrant, kind, to = word & 3, word >> 13, word >> 7 & 31
            if quadrant == 1 and kind == 3 and to == SP:  # c.addi16sp
                moved = gathered(word, (12, 1, 9), (3, 2, 7), (5, 1, 6), (2, 1, 5), (6, 1, 4))
            elif quadrant == 1 and kind == 0 and to == SP:  # c.addi
                moved = gathered(word, (12, 1, 5), (2, 5, 0))
            elif quadrant == 1 and kind == 0 and to in addresses:
                addresses[to] += gathered(word, (12, 1, 5), (2, 5, 0))
            elif quadrant == 1 and kind == 3:  # c.lui
                addresses[to] = gathered(word, (12, 1, 17), (2, 5, 12)) & 0xFFFFFFFF
            elif quadrant == 1 and kind in (1, 5):  # c.jal, c.j
                fields = (12, 1, 11), (8, 1, 10), (9, 2, 8), (6, 1, 7), (7, 1, 6), (2, 1, 5), (11, 1, 4), (3, 3, 1)
                calls.add(here + gathered(word, *fields))
            elif quadrant == 2 and kind == 4 and word >> 2 & 31 == 0 and to:  # c.jr, c.jalr
                jump = RA if word >> 12 & 1 else ZERO, to
        frame += max(-moved, 0)
        if jump and jump != (ZERO, RA):
            into = {image.word(table) for table in addresses.values()} if jump[0] == ZERO else set()
            pointers += not any(place and address <= place < address + size for place in into)
            addresses.clear()
    return Function(name, address, size, frame, {c for c in calls if not address <= c < address + size}, pointers)


def expand(immediate):
    """The constant of a data processing instruction."""
    low = immediate & 0xFF
    if immediate >> 10 == 0:
        return (low, low << 16 | low, low << 24 | low << 8, low * 0x01010101)[immediate >> 8]
    rotated, turn = 0x80 | immediate & 0x7F, immediate >> 7
    return (rotated >> turn | rotated << 32 - turn) & 0xFFFFFFFF


def stack(functions, address, above=()):
    """The deepest stack from a function on, and whether that is all: no call on the way leads elsewhere."""
    function = functions[address]
    if address in above:
        raise NotMeasured(f"{function.name} calls itself: its stack has no bound")
    below = [stack(functions, call, above + (address,)) for call in function.calls if call in functions]
    known = not function.pointers and function.calls <= functions.keys()
    deepest = max((deep for deep, _ in below), default=0)
    return function.frame + deepest, known and all(all_of_it for _, all_of_it in below)
