//! Rules of programs, each with patches and what must come of them, by hand.

use super::*;
use crate::vm::VmStatus::{self, Abort, Error, Ok};

const SOURCE: Option<u64> = Some(1);
const STATE: Option<u64> = Some(2);
const BOTH: Option<u64> = Some(3);
const CREATE: bool = true;

fn at(index: u64) -> Vec<u8> {
    number(2, index)
}

fn each(id: u64) -> Vec<u8> {
    [number(1, id), number(5, 1)].concat()
}

fn key(of: u64, register: u64) -> Vec<u8> {
    [number(3, of), number(6, register)].concat()
}

fn id(id: u64) -> Vec<u8> {
    number(1, id)
}

/// `select` with what is nested in it.
fn go(cursor: Option<u64>, path: &[Vec<u8>], create: bool, nested: &[Vec<u8>]) -> Vec<u8> {
    let cursor = cursor.map_or(Vec::new(), |cursor| number(1, cursor));
    let path: Vec<u8> = path.iter().flat_map(|component| field(2, component)).collect();
    let select = [cursor, path, number(3, create.into())].concat();
    let nested: Vec<u8> = nested.iter().flat_map(|nested| field(7, nested)).collect();
    [field(1, &select), nested].concat()
}

/// With an abort level.
fn level(level: u64, instruction: &[u8]) -> Vec<u8> {
    [instruction, &number(6, level)].concat()
}

/// `set`s a field of the state from one of the patch.
fn copy(from: u64, to: u64) -> Vec<u8> {
    go(SOURCE, &[id(from)], false, &[go(STATE, &[id(to)], CREATE, &[SET.to_vec()])])
}

/// What is done if a field is there.
fn on(of: u64, then: &[Vec<u8>]) -> Vec<u8> {
    level(1, &go(SOURCE, &[id(of)], false, then))
}

/// Runs a program over patches, each with what becomes of it and of the state.
fn check(rule: &str, program: &[Vec<u8>], patches: &[(&[u8], VmStatus, &[u8])]) {
    let program: Vec<&[u8]> = program.iter().map(Vec::as_slice).collect();
    let mut vm = machine(&listed(&program), 8192);
    let mut used = vm.stats().used;
    for (place, (patch, outcome, expected)) in patches.iter().enumerate() {
        assert_eq!(vm.apply(patch), *outcome, "{rule}, patch {place}");
        assert_eq!(state(&mut vm), *expected, "{rule}, patch {place}");
        assert!(*outcome != Abort || vm.stats().used == used, "{rule}: cells are lost");
        used = vm.stats().used;
    }
}

fn merge() -> Vec<u8> {
    MERGE.to_vec()
}

fn set() -> Vec<u8> {
    SET.to_vec()
}

fn del() -> Vec<u8> {
    DEL.to_vec()
}

fn load() -> Vec<u8> {
    REG_LOAD.to_vec()
}

#[test]
fn cursors() {
    let whole: &[u8] = &[0x0A, 2, 0x08, 5];
    for cursor in [BOTH, Some(0)] {
        let both = [go(cursor, &[id(1)], CREATE, &[set()])];
        check("it moves the state's cursor only", &both, &[(&[0x08, 5], Ok, whole)]);
        let loops = [go(cursor, &[each(1)], false, &[])];
        check("and has no loops", &loops, &[(&[0x08, 5], Abort, &[])]);
    }
    let none = [go(None, &[id(1)], false, &[go(STATE, &[id(1)], CREATE, &[set()])])];
    check("without one it is the patch's", &none, &[(&[0x08, 5], Ok, &[0x08, 5])]);
    let creates = [go(SOURCE, &[id(1)], CREATE, &[])];
    check("nothing is made in a patch", &creates, &[(&[0x08, 5], Abort, &[]), (&[], Abort, &[])]);
    let empty = [go(STATE, &[], false, &[merge()])];
    check("an empty path stays where it is", &empty, &[(&[0x08, 5], Ok, &[0x08, 5])]);
    let starts = [go(STATE, &[at(0)], CREATE, &[set()])];
    check("a step begins with a field", &starts, &[(&[0x08, 5], Abort, &[])]);
}

#[test]
fn fields_that_operations_do_not_have() {
    let (broken, walks) = ([0x0A, 2, 0x08, 0x80], go(STATE, &[id(1), id(1)], CREATE, &[]));
    for other in [3, 4, 7, 8, 1 << 20] {
        let merge = field(3, &number(other, 1));
        check("a merge's two flags are all", &[merge, walks.clone()], &[(&broken, Abort, &[])]);
    }
}

#[test]
fn abort_levels() {
    let two = |second: Vec<u8>| [copy(1, 1), second];
    fn patches(outcome: VmStatus, state: &[u8]) -> [(&[u8], VmStatus, &[u8]); 1] {
        [(&[0x08, 5], outcome, state)]
    }
    check("an error leaves the list, and what was done", &two(copy(2, 2)), &patches(Error, &[0x08, 5]));
    check("or ends the patch, without a trace", &two(level(3, &copy(2, 2))), &patches(Abort, &[]));
    for skips in [0, 1, 9, 107, 255, 256, 258] {
        check("or is skipped, by any other level", &two(level(skips, &copy(2, 2))), &patches(Ok, &[0x08, 5]));
    }
    let outer = level(1, &go(STATE, &[], false, &[copy(9, 9), copy(1, 3)]));
    let goes_up = [outer, copy(1, 4)];
    check("an error ends each list up to one whose level skips it", &goes_up, &patches(Ok, &[0x20, 5]));
    let of_merge = [[&merge()[..], &field(7, &copy(9, 9))].concat(), copy(1, 4)];
    check("an error within a merge is the merge's", &of_merge, &patches(Error, &[0x08, 5]));
    let level_of_abort = [level(1, &go(SOURCE, &[id(1), id(2)], false, &[]))];
    check("no level stops an abort", &level_of_abort, &patches(Abort, &[]));
    let conversion = [copy(1, 1), go(STATE, &[id(1), id(9)], false, &[])];
    check(
        "what an error has walked into stays a message, in the order of its fields",
        &conversion,
        &[(&[0x0A, 4, 0x10, 1, 0x08, 2], Error, &[0x0A, 4, 0x08, 2, 0x10, 1])],
    );
    let round = [on(1, &[]), level(1, &go(SOURCE, &[each(1)], false, &[copy(2, 7)])), copy(3, 8)];
    check(
        "a round that fails is the last one",
        &round,
        &[(&[0x0A, 2, 0x10, 1, 0x0A, 0, 0x0A, 2, 0x10, 3, 0x18, 9], Ok, &[0x38, 1, 0x40, 9])],
    );
}

#[test]
fn operations() {
    let of = |operations: &[&[u8]]| [operations.concat()];
    check("merge comes before set", &of(&[SET, MERGE]), &[(&[0x10, 2, 0x08, 1], Ok, &[0x08, 1, 0x10, 2])]);
    check("del before merge", &of(&[MERGE, DEL]), &[(&[0x08, 1], Ok, &[])]);
    check("reg_load before del", &of(&[DEL, REG_LOAD]), &[(&[0x08, 1], Abort, &[])]);
    check("none is an abort", &of(&[&number(6, 1)]), &[(&[0x08, 1], Abort, &[])]);
    let nests = [[&field(1, b"")[..], &field(7, MERGE)].concat()];
    check("a select without anything runs what it has", &nests, &[(&[0x08, 1], Ok, &[0x08, 1])]);
    let scalar_root = [go(SOURCE, &[id(1)], false, &[set()])];
    check("the root is no scalar", &scalar_root, &[(&[0x08, 1], Abort, &[])]);
}

#[test]
fn setting_and_merging() {
    check(
        "set makes an empty field",
        &[copy(1, 2)],
        &[
            (&[0x0A, 0], Ok, &[0x12, 0]),
            (&[0x0A, 1, b'x'], Ok, &[0x12, 1, b'x']),
            (&[0x08, 1], Abort, &[0x12, 1, b'x']),
        ],
    );
    let into = [go(SOURCE, &[id(1)], false, &[go(STATE, &[id(2)], CREATE, &[merge()])])];
    check("merge of nothing does not", &into, &[(&[0x0A, 0], Ok, &[]), (&[0x08, 1], Abort, &[])]);
    let fixed: &[u8] = &[0x0D, 1, 2, 3, 4, 0x11, 1, 2, 3, 4, 5, 6, 7, 8];
    check("bits and kinds of numbers stay", &[merge()], &[(fixed, Ok, fixed)]);
    check("varints become short", &[copy(1, 1)], &[(&[0x88, 0, 0x85, 0x80, 0], Ok, &[0x08, 5])]);
    check("what is malformed ends the message", &[merge()], &[(&[0x08, 5, 0x0F, 0x10, 1], Ok, &[0x08, 5])]);
    check(
        "a repeated field replaces the list, whatever lies between",
        &[merge()],
        &[
            (&[0x18, 1, 0x20, 9, 0x18, 2], Ok, &[0x18, 1, 0x18, 2, 0x20, 9]),
            (&[0x18, 5], Ok, &[0x18, 5, 0x20, 9]),
            (&[0x22, 1, b'a'], Ok, &[0x18, 5, 0x22, 1, b'a']),
        ],
    );
    let how = field(3, &[number(1, 1), number(2, 1)].concat());
    let deep = [on(1, &[go(STATE, &[id(1)], CREATE, &[merge()])]), how];
    check(
        "a message is merged deep, from below, and goes if the patch's is empty",
        &deep,
        &[
            (&[0x0A, 4, 0x10, 5, 0x18, 6, 0x20, 1], Ok, &[0x0A, 4, 0x10, 5, 0x18, 6, 0x20, 1]),
            (&[0x0A, 2, 0x18, 7], Ok, &[0x0A, 4, 0x10, 5, 0x18, 7, 0x20, 1]),
            (&[0x0A, 0], Ok, &[0x20, 1]),
        ],
    );
}

#[test]
fn lists() {
    let list: &[u8] = &[0x22, 6, 0x18, 10, 0x18, 11, 0x18, 12];
    let whole = on(4, &[merge()]);
    let all: (&[u8], _, &[u8]) = (list, Ok, &[0x18, 10, 0x18, 11, 0x18, 12]);
    let gap = [
        whole.clone(),
        on(5, &[go(STATE, &[id(3), at(1)], false, &[del()])]),
        on(6, &[go(STATE, &[id(3), at(2)], false, &[set()])]),
    ];
    check(
        "an element that goes leaves a gap",
        &gap,
        &[all, (&[0x28, 1], Ok, &[0x18, 10, 0x18, 12]), (&[0x30, 99], Ok, &[0x18, 10, 0x18, 99])],
    );
    let places = [
        whole,
        on(5, &[go(STATE, &[each(3)], false, &[del()])]),
        on(6, &[go(STATE, &[id(3), at(3)], false, &[set()])]),
    ];
    check(
        "an element of a loop keeps its place",
        &places,
        &[all, (&[0x28, 1], Ok, &[]), (&[0x30, 9], Ok, &[0x18, 9]), (&[0x28, 1], Ok, &[])],
    );
    let first = [go(STATE, &[id(3), at(0)], false, &[set()])];
    check("the first element is made, told to or not", &first, &[(&[0x08, 1], Ok, &[0x1A, 2, 0x08, 1])]);
    let second = [go(STATE, &[id(3), at(1)], CREATE, &[set()])];
    check("none behind a gap", &second, &[(&[0x08, 1], Abort, &[])]);
    let from_scalar = [copy(1, 3), go(STATE, &[id(3), at(1)], false, &[set()])];
    let two: &[u8] = &[0x18, 7, 0x1A, 2, 0x08, 7];
    check(
        "a value becomes the first element, and a list is no value again",
        &from_scalar,
        &[(&[0x08, 7], Ok, two), (&[0x08, 8], Abort, two)],
    );
    let of_patch = [go(SOURCE, &[id(1), at(1)], false, &[go(STATE, &[id(1)], CREATE, &[set()])])];
    check(
        "numbers of a patch are counted too",
        &of_patch,
        &[(&[0x08, 5, 0x10, 1, 0x08, 6], Ok, &[0x08, 6]), (&[0x08, 5], Error, &[0x08, 6])],
    );
    let then_index = [level(1, &go(STATE, &[each(3), at(0)], false, &[])), copy(1, 3)];
    check(
        "an index behind a loop is an abort, in the first round",
        &then_index,
        &[(&[0x08, 1], Ok, &[0x18, 1]), (&[0x08, 1], Abort, &[0x18, 1])],
    );
}

#[test]
fn maps_and_registers() {
    let keyed = |create, body: Vec<u8>| go(STATE, &[id(5), key(1, 0)], create, &[body]);
    let of_key = go(SOURCE, &[id(1)], false, &[load()]);
    let patch = |key: u64| [number(1, key), number(2, 7)].concat();
    let element = |key: u64| field(5, &patch(key));
    let [one, far, last] = [1, (1 << 32) + 1, u64::MAX];
    let elements = |keys: &[u64]| keys.iter().flat_map(|key| element(*key)).collect::<Vec<u8>>();
    check(
        "keys have 64 bits, and an order",
        &[of_key.clone(), keyed(CREATE, set())],
        &[
            (&patch(last), Ok, &elements(&[last])),
            (&patch(far), Ok, &elements(&[far, last])),
            (&patch(one), Ok, &elements(&[one, far, last])),
        ],
    );
    check(
        "a field is made only if it is to be",
        &[of_key.clone(), keyed(false, set())],
        &[(&patch(one), Error, &[])],
    );
    let there = go(STATE, &[id(5)], CREATE, &[]);
    check(
        "an element is made even if not, and a map is not walked into as a field",
        &[of_key.clone(), there, keyed(false, set())],
        &[(&patch(one), Ok, &element(one)), (&patch(far), Abort, &element(one))],
    );
    check("a register is empty at first", &[keyed(CREATE, set())], &[(&patch(one), Abort, &[])]);
    let unnamed = [of_key.clone(), go(STATE, &[id(5), number(3, 1)], CREATE, &[set()])];
    check("a key is in a register that is named", &unnamed, &[(&patch(one), Abort, &[])]);
    let in_patch = [of_key.clone(), go(SOURCE, &[id(5), key(1, 0)], false, &[])];
    check(
        "a patch has no maps",
        &in_patch,
        &[(&element(one), Error, &[]), (&[&patch(1)[..], &element(1)].concat(), Abort, &[])],
    );
    for (register, outcome) in [(256, Ok), (31, Abort), (32, Abort), (255, Abort), (287, Abort)] {
        let load = go(SOURCE, &[id(1)], false, &[field(2, &number(2, register))]);
        let state = if outcome == Ok { element(one) } else { Vec::new() };
        check(
            "a register's number has 8 bits",
            &[load, keyed(CREATE, set())],
            &[(&patch(one), outcome, &state)],
        );
    }
    let of_state = [copy(1, 9), go(STATE, &[id(9)], false, &[field(2, &number(1, 3))]), keyed(CREATE, set())];
    let state = [element(one), number(9, 1)].concat();
    check("a register has a number of the state", &of_state, &[(&patch(one), Ok, &state)]);
    let two_of_a_key =
        [on(4, &[merge()]), on(1, &[load()]), on(2, &[go(STATE, &[id(5), key(1, 0)], false, &[])])];
    let [a, b] = [b"a", b"b"].map(|text| field(5, &[number(1, 3), field(2, text)].concat()));
    let listed = [a.clone(), b.clone()].concat();
    let mut whole = field(4, &listed);
    check(
        "of two elements with a key the first stays when a list becomes a map",
        &two_of_a_key,
        &[(&whole, Ok, &listed), (&[number(1, 3), number(2, 0)].concat(), Ok, &a), (&whole, Abort, &a)],
    );
    whole = field(4, &[a.clone(), field(5, &field(2, b"no key"))].concat());
    check(
        "an element without a key is an abort, and the list stays",
        &two_of_a_key,
        &[(&whole, Ok, &whole[2..]), (&[number(1, 3), number(2, 0)].concat(), Abort, &whole[2..])],
    );
}

#[test]
fn deleting() {
    check(
        "the root is empty and stays",
        &[del(), merge()],
        &[(&[0x08, 1], Ok, &[0x08, 1]), (&[0x10, 2], Ok, &[0x10, 2])],
    );
    let used_after = [merge(), go(STATE, &[id(1)], false, &[del(), merge()])];
    check("what is deleted is no place", &used_after, &[(&[0x08, 1], Abort, &[])]);
    let nested_after =
        [merge(), go(STATE, &[id(1)], false, &[[del(), field(7, &copy(2, 2))].concat()]), copy(2, 3)];
    check(
        "not even to go on from, until its select has ended",
        &nested_after,
        &[(&[0x08, 1, 0x10, 2], Abort, &[])],
    );
    let restored = [merge(), go(STATE, &[id(1)], false, &[del()]), copy(2, 3)];
    check("then the cursor is where it was", &restored, &[(&[0x08, 1, 0x10, 2], Ok, &[0x10, 2, 0x18, 2])]);
    for between in [go(SOURCE, &[id(1)], false, &[del()]), go(STATE, &[], false, &[del()])] {
        let unmoved = [go(STATE, &[id(1)], CREATE, &[between])];
        check(
            "nothing is deleted that an inner select has not moved to",
            &unmoved,
            &[(&[0x08, 1], Abort, &[])],
        );
    }
}

/// What aborts reads on for a moment, and a producer chooses numbers and bytes: it must never follow them.
#[test]
fn numbers_are_no_links() {
    let steps = [each(5), [id(5), at(0)].concat(), [id(5), key(1, 0)].concat()];
    for (place, create) in [(0, false), (1, false), (1, CREATE), (2, false), (2, CREATE)] {
        let into = go(STATE, &[id(1), steps[place].clone()], create, &[del()]);
        let program = [go(SOURCE, &[id(1)], false, &[load()]), copy(2, 2), copy(1, 1), into];
        for cell in (0..8192 / 4).step_by(8) {
            // A cell of bytes that is its own child, and also seems to be what may become a list.
            for kind in 1..6_u32 {
                let words = [cell, cell, cell, cell, cell, cell, cell | kind];
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                let patch = [number(1, cell.into()), field(2, &bytes)].concat();
                check("a number has no children", &program, &[(&patch, Abort, &[])]);
            }
        }
    }
}
