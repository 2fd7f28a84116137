//! Addresses of the kernel: the texts and symbols behind them. A trace never has the addresses themselves.

use std::collections::HashMap;

/// The kernel's constant texts by address: `printk_formats` of the top-level tracefs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ConstantTexts(HashMap<u64, String>);

impl ConstantTexts {
    /// Parses the file: lines of `0xADDRESS : "TEXT"`. Others are skipped; root sees no line if the kernel hides addresses.
    pub(super) fn parse(printk_formats: &str) -> Self {
        Self(printk_formats.lines().filter_map(Self::line).collect())
    }

    fn line(line: &str) -> Option<(u64, String)> {
        let (address, text) = line.split_once(" : ")?;
        let address = u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok()?;
        let text = text.trim_end().strip_prefix('"')?.strip_suffix('"')?;
        Some((address, text.to_owned()))
    }

    /// The text at an address; empty if there is none.
    pub(super) fn at(&self, address: u64) -> &str {
        self.0.get(&address).map_or("", String::as_str)
    }
}

/// Functions of the kernel by address: `/proc/kallsyms`.
#[derive(Debug, Clone, Default)]
pub struct KernelSymbols {
    /// In order of addresses, each with the end of its name in `names`.
    starts: Vec<(u64, u32)>,
    names: String,
}

impl KernelSymbols {
    /// Parses the file: lines of `ADDRESS TYPE NAME` and perhaps a module. Only functions (types t and T) are kept. Where
    /// addresses are hidden all are 0, and there are no symbols.
    pub fn parse(kallsyms: &str) -> Self {
        let mut lines: Vec<_> = kallsyms.lines().filter_map(Self::line).collect();
        lines.sort_by_key(|(address, _)| *address);
        lines.dedup_by_key(|(address, _)| *address);
        let mut symbols = Self::default();
        for (address, name) in lines {
            symbols.names.push_str(name);
            symbols.starts.push((address, symbols.names.len() as u32));
        }
        symbols
    }

    fn line(line: &str) -> Option<(u64, &str)> {
        let mut words = line.split_ascii_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
        words.next().filter(|kind| matches!(*kind, "t" | "T"))?;
        Some((address, words.next()?))
    }

    /// The function that an address lies in: the nearest that begins at or below it.
    pub fn at(&self, address: u64) -> Option<&str> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let end_of = |index: usize| self.starts.get(index).map(|(_, end)| *end as usize);
        let index = after.checked_sub(1)?;
        let start = index.checked_sub(1).and_then(end_of).unwrap_or(0);
        self.names.get(start..end_of(index)?)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none, as where the kernel hides addresses.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.names.len() + size_of_val(self.starts.as_slice())
    }
}

/// Numbers in place of addresses, from 1 in the order of first sight; a read pass begins anew.
#[derive(Debug, Default)]
pub(super) struct Indices {
    numbers: HashMap<u64, u32>,
    addresses: Vec<u64>,
    told: usize,
}

impl Indices {
    /// The number of an address.
    pub(super) fn of(&mut self, address: u64) -> u32 {
        let next = self.addresses.len() as u32 + 1;
        let number = *self.numbers.entry(address).or_insert(next);
        if number == next {
            self.addresses.push(address);
        }
        number
    }

    /// Begins a read pass.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.addresses.clear();
        self.told = 0;
    }

    /// Those numbered since the last call, and whether the pass's first is among them.
    pub(super) fn take_new(&mut self) -> (bool, impl Iterator<Item = (u32, u64)>) {
        let told = std::mem::replace(&mut self.told, self.addresses.len());
        (told == 0 && self.told > 0, (1..).zip(self.addresses.iter().copied()).skip(told))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_text_may_hold_anything_but_a_newline() {
        let texts =
            ConstantTexts::parse("0xffffffff828195af : \"a : \"b\"\"\nrubbish\n0x10 : \"\"\n0xg : \"c\"\n");
        assert_eq!((texts.at(0xffff_ffff_8281_95af), texts.at(0x10), texts.at(1)), ("a : \"b\"", "", ""));
        assert_eq!(texts.0.len(), 2);
    }

    #[test]
    fn an_address_lies_in_the_function_that_begins_last_before_it() {
        let text = "0000000000000030 T c\t[module]\n0000000000000010 t a\n0000000000000020 d data\n\
                    0000000000000000 T hidden\n0000000000000010 t alias\n";
        let symbols = KernelSymbols::parse(text);
        let found = [0xF, 0x10, 0x2F, 0x30, u64::MAX].map(|address| symbols.at(address));
        assert_eq!(found, [None, Some("a"), Some("a"), Some("c"), Some("c")]);
        assert_eq!(symbols.len(), 2);
        assert!(KernelSymbols::parse("0000000000000000 T hidden\n").is_empty());
    }

    #[test]
    fn numbers_begin_anew_with_each_pass_and_each_is_told_once() {
        let mut indices = Indices::default();
        assert_eq!([7, 9, 7].map(|address| indices.of(address)), [1, 2, 1]);
        let (first, new) = indices.take_new();
        assert!(first && new.eq([(1, 7), (2, 9)]));
        indices.of(8);
        let (first, new) = indices.take_new();
        assert!(!first && new.eq([(3, 8)]));
        indices.clear();
        assert!(!indices.take_new().0);
        assert_eq!(indices.of(8), 1);
        assert!(indices.take_new().0);
    }
}
