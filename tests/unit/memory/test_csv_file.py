# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re
from dataclasses import asdict

import pytest

from poetfw.common.errors import OutputError, ProblemError
from poetfw.memory import Buffer, place
from poetfw.memory.banks import Bank, bank_uses
from poetfw.memory.csv_file import read_buffers, result_document, write_placement

HEADER = "expected the header id,lower,upper,size[,alignment][,offset][,bank]"


@pytest.fixture
def csv(tmp_path):
    return tmp_path / "buffers.csv"


def test_reads_all_columns_in_any_order(csv):
    csv.write_text(
        "\ufeffsize,id,lower,upper,offset,alignment\n10,a,0,4,,\n\n8, b ,-3,6,16,8\n", "utf-8"
    )
    assert read_buffers(csv) == [Buffer("a", 0, 4, 10), Buffer("b", -3, 6, 8, 8, 16)]


def test_a_quoted_id_may_hold_commas_and_newlines(csv):
    csv.write_text('id,lower,upper,size\n"a,\nb",0,1,1\nc,0,1,x\n')
    with pytest.raises(ProblemError, match="line 4: size must be an integer, not 'x'"):
        read_buffers(csv)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"line 1: is empty; {HEADER}"),
        ("\nid,lower,upper,size\n", f"line 1: is empty; {HEADER}"),
        ("a,0,1,5\n", f"line 1: 'a,0,1,5' is not the header; {HEADER}"),
        ("ID,LOWER,UPPER\r\n", f"line 1: 'ID,LOWER,UPPER' is not the header; {HEADER}"),
        ("id;lower\rid,", f"line 1: 'id;lower' is not the header; {HEADER}"),
        ("id\tsize\n", f"line 1: 'id\\tsize' is not the header; {HEADER}"),
        ("# my buffers\nid,", f"line 1: '# my buffers' is not the header; {HEADER}"),
        ("x" * 61, f"line 1: '{'x' * 59}…' is not the header; {HEADER}"),
        (f"id,{'x' * 99}\n", f"line 1: the column 'lower' is missing; {HEADER}"),
        (
            f"id,lower,upper,size,{'x' * 61}\n",
            f"line 1: the column '{'x' * 59}…' is unknown; {HEADER}",
        ),
        ("id,lower,size\n", f"line 1: the column 'upper' is missing; {HEADER}"),
        ("id,lower,upper,size,tier\n", f"line 1: the column 'tier' is unknown; {HEADER}"),
        ("id,id,lower,upper,size\n", f"line 1: the column 'id' occurs twice; {HEADER}"),
        ("id,lower,upper,size\na,0,1\n", "line 2: expected 4 fields, got 3"),
        ("id,lower,upper,size\na,0,1,5,6\n", "line 2: expected 4 fields, got 5"),
        ("id,lower,upper,size\n,0,1,5\n", "line 2: the id is empty"),
        ("id,lower,upper,size\na,0,1,\n", "line 2: size must be an integer, not ''"),
        ("id,lower,upper,size\na,0,1.5,5\n", "line 2: upper must be an integer, not '1.5'"),
        ("id,lower,upper,size\na,0,1,1_0\n", "line 2: size must be an integer, not '1_0'"),
        (
            f"id,lower,upper,size\na,0,1,{'9' * 5000}\n",
            f"line 2: size must be an integer, not '{'9' * 59}…'",
        ),
        (
            'id,lower,upper,size,bank\na,0,1,1,\nb,0,1,1,"fast,slow"\n',
            "line 3: the bank 'fast,slow' must not hold a comma",
        ),
        (
            'id,lower,upper,size\n"a\r\x85\u2028b",0,1,1\nc\x0b\x0c\x1c\u2029,0,1,x\n',
            "line 4: size must be an integer, not 'x'",
        ),
        ("id,lower,upper,size\na,0,1,\u0663\n", "line 2: size must be an integer, not '\u0663'"),
        (
            "id,lower,upper,size\nx,0,1,1\na,0,0,5\n",
            "line 3: buffer 'a': the interval [0, 0) is empty; upper must be greater than lower",
        ),
        (
            "id,lower,upper,size\na,0,1,1099511627777\n",
            "line 2: buffer 'a': the size must be 0 to 2^40 bytes, not 1099511627777",
        ),
        (
            "id,lower,upper,size,alignment\na,0,1,5,0\n",
            "line 2: buffer 'a': the alignment must be 1 to 2^40 bytes, not 0",
        ),
        (
            "id,lower,upper,size\na,0,1,5\nb,0,1,5\na,0,1,5\n",
            "line 4: the id 'a' occurs already in line 2; ids must be unique",
        ),
        (
            "id,lower,upper,size,offset\na,0,2,5,0\nc,0,1,5,\nb,1,2,5,4\n",
            "line 4: the fixed buffer 'b' overlaps 'a' of line 2 in time and address",
        ),
        ('id,lower,upper,size\n"a,0,1,5\n', "line 2: is not CSV: unexpected end of data"),
    ],
)
def test_refuses_with_the_line_number(csv, text, message):
    csv.write_text(text, "utf-8")
    with pytest.raises(ProblemError, match=f"^{re.escape(f'{csv}, {message}')}$"):
        read_buffers(csv)


def test_refuses_what_is_no_text(csv):
    with pytest.raises(ProblemError, match="cannot be read: No such file"):
        read_buffers(csv)
    csv.write_bytes(b"id,lower\xff")
    with pytest.raises(ProblemError, match=re.escape("is not UTF-8 text (byte 8)")):
        read_buffers(csv)
    csv.write_text("id,lower,upper,size\n", "utf-16")
    with pytest.raises(ProblemError, match="is not UTF-8 text") as refusal:
        read_buffers(csv)
    assert refusal.value.try_next == ("save it as UTF-8",)


def test_what_is_written_reads_back_as_fixed(csv, tmp_path):
    buffers = [Buffer("a", 0, 4, 10), Buffer("b,c", 3, 6, 8, 8), Buffer("d", 5, 7, 3)]
    placement = place(buffers)
    write_placement(csv, buffers, placement)
    assert "bank" not in csv.read_text()
    again = read_buffers(csv)
    assert [b.offset for b in again] == [placement.offsets[b.id] for b in buffers]
    assert place(again).offsets == placement.offsets
    assert [path.name for path in tmp_path.iterdir()] == ["buffers.csv"]


@pytest.mark.parametrize("end", [*"\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", "\r\n"])
def test_ids_that_hold_ends_of_lines_survive(csv, end):
    buffers = [Buffer(f"a{end}b", 0, 4, 10), Buffer(f'"{end}"', 3, 6, 8), Buffer("c", 3, 6, 8)]
    placement = place(buffers)
    write_placement(csv, buffers, placement)
    assert f'"a{end}b"' in csv.read_bytes().decode()
    again = read_buffers(csv)
    assert {b.id: b.offset for b in again} == placement.offsets


def test_the_hint_to_give_a_bank_can_be_pasted(csv):
    csv.write_text("id,lower,upper,size,bank\na,0,4,10,my bank\n")
    with pytest.raises(ProblemError) as refusal:
        read_buffers(csv)
    assert refusal.value.try_next == ("give it with --bank 'my bank=LOWER:UPPER'",)


def test_banks_are_read_and_written(csv):
    csv.write_text("id,lower,upper,size,bank\na,0,4,10,fast\nb,3,6,8,\n")
    banks = [Bank("fast", 0, 16)]
    buffers = read_buffers(csv, banks)
    assert buffers == [Buffer("a", 0, 4, 10, bank="fast"), Buffer("b", 3, 6, 8)]
    with pytest.raises(ProblemError, match="line 2: the bank 'fast' does not exist") as refusal:
        read_buffers(csv)
    assert refusal.value.try_next == ("give it with --bank fast=LOWER:UPPER",)
    write_placement(csv, buffers, place(buffers))
    assert [b.bank for b in read_buffers(csv, banks)] == ["fast", None]


def test_a_failed_write_leaves_nothing_behind(csv, tmp_path):
    csv.mkdir()
    buffers = [Buffer("a", 0, 4, 10)]
    with pytest.raises(OutputError, match=r"^cannot write .*buffers\.csv: "):
        write_placement(csv, buffers, place(buffers))
    assert [path.name for path in tmp_path.iterdir()] == ["buffers.csv"]


def test_result_document():
    buffers = [Buffer("a", 0, 4, 10, 2, bank="fast"), Buffer("b", 3, 6, 8, 16)]
    placement = place(buffers)
    uses = bank_uses(buffers, [Bank("fast", 0, 16)], placement.offsets)
    document = result_document(buffers, placement, uses)
    assert document == {
        "status": "optimal",
        "height_bytes": 18,
        "lower_bound_bytes": 18,
        "banks": [
            {
                "bank": {"name": "fast", "lower": 0, "upper": 16},
                "buffers": 0,
                "of_buffers": 1,
                "size_bytes": 0,
                "of_bytes": 10,
            }
        ],
        "buffers": [asdict(b) | {"offset": placement.offsets[b.id]} for b in buffers],
    }
    assert placement.offsets == {"a": 8, "b": 0}
    nowhere = result_document(buffers, place(buffers, capacity=17))
    assert nowhere["status"] == "infeasible"
