"""Expressions for `test_expressions`: every function that a query may call, each operator, casts, edge values.

One a line; each is evaluated over the rows of `ROWS`, by DuckDB itself and by Firn.
"""

from __future__ import annotations

from typing import Final

COLUMNS: Final = {
    "k": "BIGINT",
    "n": "INTEGER",
    "ti": "TINYINT",
    "si": "SMALLINT",
    "ui": "UINTEGER",
    "ub": "UBIGINT",
    "h": "HUGEINT",
    "x": "DOUBLE",
    "f": "FLOAT",
    "m": "DECIMAL(12,2)",
    "mm": "DECIMAL(38,10)",
    "ok": "BOOLEAN",
    "s": "VARCHAR",
    "b": "BLOB",
    "u": "UUID",
    "j": "JSON",
    "d": "DATE",
    "t": "TIMESTAMP",
    "z": "TIMESTAMP WITH TIME ZONE",
    "ns": "TIMESTAMP_NS",
    "c": "TIME",
    "l": "BIGINT[]",
    "lx": "DOUBLE[]",
    "ls": "VARCHAR[]",
    "o": "STRUCT(a DOUBLE, b VARCHAR)",
    "lo": "STRUCT(a FLOAT, b DATE[])[]",
    "mp": "MAP(VARCHAR, BIGINT)",
    "a": "FLOAT[3]",
}

ROWS: Final = """
(1, 7, 3, 300, 5, 9, 12, 1.5, 2.25, 12.34, 1.0000000001, true, 'Hello Wörld', 'ab'::BLOB,
 '019482e4-1441-7aad-8127-eec99573b0a0', '{"a": [1, {"b": null}], "s": "x", "n": 2.5}', '2024-02-29',
 '2024-02-29 12:34:56.123456', '2024-07-01 00:00:00+02', '2024-01-01 00:00:00.123456789', '12:34:56.5',
 [3, 1, NULL, 2], ['1.5', 'nan', '-0.0'], ['b', 'a', ''], {'a': 1.5, 'b': 'p'}, [{'a': 1, 'b': ['2024-01-01',
 NULL]}],
 MAP {'p': 1, 'q': NULL}, [1, 2, 3]),
(2, -2147483648, -128, -32768, 0, 0, -99999999999999999999999999999999999999, '-inf', '-inf', -9999999999.99,
 -9999999999999999999999999999.9999999999, false, '', ''::BLOB, '00000000-0000-0000-0000-000000000000', 'null',
 '0001-01-01', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00', '1677-09-22 00:00:00', '00:00:00', [], [], [],
 {'a': NULL, 'b': NULL}, [], MAP {}, ['0', '-inf', 'nan']),
(3, 2147483647, 127, 32767, 4294967295, 18446744073709551615, 99999999999999999999999999999999999999, 'inf',
 'inf',
 9999999999.99, 9999999999999999999999999999.9999999999, true, 'it''s "q" \\ %_ 日本 🦆', '\\x00\\xFF'::BLOB,
 'ffffffff-ffff-ffff-ffff-ffffffffffff', '[]', '9999-12-31', '9999-12-31 23:59:59.999999',
 '9999-12-31 23:59:59.999999+00', '2262-04-11 23:47:16.854775806', '23:59:59.999999',
 [9223372036854775807, -9223372036854775808], ['inf', '-inf'], ['日本', NULL], {'a': 'nan', 'b': ''},
 [NULL, {'a': 'nan', 'b': []}], MAP {'': 9223372036854775807}, [1.5, 1.5, 1.5]),
(4, 0, 0, 0, 0, 1, 0, 'nan', 'nan', 0, 0, NULL, 'NULL', 'NULL'::BLOB, '12345678-1234-1234-1234-123456789abc',
 '"t"',
 '1970-01-01', '1970-01-01 00:00:00', '1970-01-01 00:00:00+00', '1970-01-01 00:00:00', '00:00:01', [0],
 ['nan'], [NULL],
 {'a': 0, 'b': 'NULL'}, [{'a': '-0.0', 'b': NULL}], MAP {'nan': 0}, ['0', '-0.0', '1']),
(5, 1, 1, -1, 1, 1, 1, '-0.0', '-0.0', -0.01, 0.0000000001, false, 'a,b,,c', 'a'::BLOB, NULL, '3', '2023-12-31',
 '1969-12-31 23:59:59.999999', '2024-10-27 01:30:00+01', NULL, NULL, [1, 1, 2], [2, 0.5], ['x'], {'a': '-0.0',
 'b': 'a'},
 NULL, MAP {'x': 1, 'y': 2}, [-1, 0, 1]),
(6, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
 NULL, NULL,
 NULL, NULL, NULL, NULL, NULL, NULL, NULL)
"""

SCALARS: Final = r"""
n = 7
n != 7
n <> 7
n < 7
n <= 7
n > 7
n >= 7
n IS NULL
n IS NOT NULL
n IS DISTINCT FROM 7
n IS NOT DISTINCT FROM NULL
n BETWEEN 0 AND 7
n NOT BETWEEN 0 AND 7
n IN (0, 7, NULL)
n NOT IN (0, 7)
n NOT IN (0, NULL)
n IN [0, 7]
NOT ok
ok AND n > 0
ok OR n > 0
ok IS TRUE
ok IS NOT FALSE
ok IS UNKNOWN
ok = (n > 0)
n::BIGINT + 1
b || 'x'::BLOB
-n::BIGINT
+n
n % 5
n // 5
n / 5
n * 2.5
k - n
n::BIGINT * n
x / 0
n / 0
n::DOUBLE % 0.75
m / 3
m * ti
m + 0.005
m % 7
-m
mm / 7
mm + 0
h + 0
h // 7
h % 1000
h / 3
h & 255
n & 12
n | 12
~n
xor(n, 12)
abs(ti::INTEGER) << 2
si >> 2
2 ** ti
2 ^ 0.5
ti::DOUBLE ^ 2
@ ti::INTEGER
4!
add(n::BIGINT, 1)
subtract(n::BIGINT, 1)
multiply(n::BIGINT, 3)
divide(n, 3)
mod(n, 4)
s || '!'
s || n
l || [9]
s LIKE 'H%'
s NOT LIKE '%a%'
s LIKE '%\%%' ESCAPE '\'
s NOT LIKE '%\%%' ESCAPE '\'
s ILIKE 'h%'
s NOT ILIKE 'h%'
s ILIKE 'h$%' ESCAPE '$'
s NOT ILIKE 'h$%' ESCAPE '$'
s SIMILAR TO '[a-z,]+'
s NOT SIMILAR TO '[a-z,]+'
s ~ '[a-z,]+'
s !~ '[a-z,]+'
s GLOB '*o*'
s ~~ 'H%'
s !~~ 'H%'
s ~~* 'h%'
s !~~* 'h%'
s ~~~ 'H*'
s ^@ 'He'
s COLLATE NOCASE = 'HELLO WÖRLD'
s COLLATE NOACCENT = 'Hello World'
s COLLATE NOCASE.NOACCENT < 'b'
s > 'I'
s = ''
s[1]
s[2:4]
s[-3:]
l[1]
l[-1]
l[0]
l[99]
l[2:3]
l[:-2:-1]
ls[1] || '.'
o.a
o['b']
o.b || '?'
lo[1].a
lo[1].b[1]
mp['p']
mp['nosuch']
a[2]
l && [1]
l @> [1, 2]
[1] <@ l
coalesce(a, [1, 2, 3]::FLOAT[3]) <-> [1, 1, 1]::FLOAT[3]
coalesce(a, [1, 2, 3]::FLOAT[3]) <=> [1, 1, 1]::FLOAT[3]
[1.0, 2]::FLOAT[] <-> [1, 1]::FLOAT[]
j->'a'
j->'$.a[1].b'
j->>'s'
j->>['s', '$.n']
j->>0
(j->'a')[0]
CASE WHEN n > 0 THEN 'p' WHEN n < 0 THEN 'n' END
CASE n WHEN 7 THEN 1 ELSE 2.5 END
CASE WHEN x > 1 THEN x ELSE n END
if(n > 0, s, 'no')
ifnull(n, 5)
nullif(n, 7)
coalesce(n, k, 3)
coalesce(NULL, s)
x > 1
x >= 'nan'
x = 'nan'
x = x
x < 'nan'
x <> 0
x = -0.0
f > 1
f = 2.25
NOT (x <= 2)
lx = ['1.5', 'nan', '0.0']
o = {'a': 'nan', 'b': ''}
o < {'a': 1.5, 'b': 'q'}
l < [3, 2]
mp = MAP {'': 9223372036854775807}
d = '2024-02-29'
d > TIMESTAMP '2024-02-28 23:00:00'
d + 1
d - 1
d - DATE '2024-01-01'
(t - INTERVAL 1 DAY) > '2024-01-01'
INTERVAL 3 MONTH * 2
INTERVAL 3 MONTH / 2
-INTERVAL 3 MONTH
INTERVAL '1 year 2 days 03:04:05.678901'
INTERVAL '-1 month'
INTERVAL (n % 100) DAY
t - TIMESTAMP '2020-01-01 00:00:00'
z - TIMESTAMPTZ '2024-01-01 00:00:00+00'
least(t, TIMESTAMP '2020-01-01') + INTERVAL 1 MONTH
DATE '2024-01-31' + INTERVAL 1 MONTH
c + INTERVAL 1 HOUR
DATE '2024-01-01' + TIME '12:00:00'
greatest(z, TIMESTAMPTZ '2020-01-01 00:00:00+00') AT TIME ZONE 'Europe/Berlin'
TIMESTAMP '2024-10-27 02:30:00' AT TIME ZONE 'Europe/Berlin'
TIMESTAMP '2024-03-31 02:30:00' AT TIME ZONE 'America/New_York'
timezone('Asia/Tokyo', TIMESTAMP '2024-01-01 00:00:00')
TIMESTAMPTZ '2024-01-01 00:00:00 Europe/Berlin'
TIMETZ '12:00:00+05:30' = TIMETZ '06:30:00+00'
TIMETZ '12:00:00+05:30' < TIMETZ '13:30:00+07'
EXTRACT(year FROM d)
EXTRACT(epoch FROM t)
EXTRACT(century FROM d)
DATE 'infinity' > d
TIMESTAMP '-infinity' < t
DATE '0044-03-15 (BC)'
DATE '5877642-06-25 (BC)'
DATE '5881580-07-10'
TIMESTAMP '294247-01-10 04:00:54.775806'
TIME '24:00:00'
TIME '12:34:56.1234567'
TIMETZ '12:00:00+15:59'
TIMESTAMP_NS '2024-01-01 00:00:00.000000001'
TIMESTAMP_MS '2024-01-01 00:00:00.0015'
TIMESTAMP_S '2024-01-01 00:00:00.9'
170141183460469231731687303715884105727
-170141183460469231731687303715884105728
170141183460469231731687303715884105728
340282366920938463463374607431768211455::UHUGEINT
9223372036854775807 + 0
9223372036854775808
0.1 + 0.2
0.1::DOUBLE + 0.2
1e400
1e-400
1e308 * 10
'inf'::DOUBLE - 'inf'
99999999999999999999999999999999999999::DECIMAL(38,0)
0.00000000000000000000000000000000000001
1_000_000
'it''s'
E'a\tb\n\u00e9'
$$dollar $quoted$$
''
'\x00'::BLOB
'\xAA\xBB'::BLOB
[1, NULL, 3]
[]
[[1], [], NULL]
{'a': 1, 'b': {'c': [1, 2]}}
ROW(1, 'a')
(1, 'a')
MAP {'a': 1, 'b': 2}
MAP {1: [1], 2: NULL}
[e % 7 FOR e IN l IF e > 1]
[1, 2, 3]::INTEGER[3]
array_value(1, 2)
'a'::ENUM('b', 'a')
('a'::ENUM('b', 'a')) > 'b'
union_value(k := 5)
union_value(k := 5).k
'101'::BIT
~'101'::BIT
'101'::BIT & '011'::BIT
'101'::BIT | '010'::BIT
xor('101'::BIT, '010'::BIT)
'101'::BIT << 1
42::VARIANT
{'a': 1}::VARIANT
123456789012345678901234567890123456789012345::BIGNUM
NULL
NULL::INTEGER
NULL::STRUCT(a INTEGER)
NULL + 1
NULL = NULL
NULL AND false
NULL OR true
abs(ti::INTEGER)
acos(0.5)
acosh(2.3)
age(TIMESTAMP '2001-04-10', TIMESTAMP '1992-09-20')
age(z, TIMESTAMPTZ '1992-09-20 00:00:00+00')
aggregate(l, 'min')
alias(n % 7)
apply(l, lambda e: e::HUGEINT + 1)
array_aggr(l, 'count')
array_aggregate(lx, 'max')
array_append(l, 5)
array_apply(l, lambda e, i: i)
array_cat(l, [1])
array_concat(l, NULL)
array_contains(l, 1)
array_cosine_distance(a, [1, 1, 1]::FLOAT[3])
array_cosine_similarity(a, [1, 1, 1]::FLOAT[3])
array_cross_product(a, [1, 0, 1]::FLOAT[3])
array_distance(a, [1, 1, 1]::FLOAT[3])
array_distinct([1, 1, NULL, 2])
array_dot_product(a, a)
array_extract(l, 1)
array_extract(o, 'a')
array_extract(s, 1)
array_filter(l, lambda e: e > 1)
array_grade_up(l)
array_has(l, NULL)
array_has_all(l, [1])
array_has_any(l, [1, 5])
array_indexof(l, 2)
array_inner_product(a, a)
array_intersect([1, 2], [2, 3])
array_length(l)
array_length([[1, 2]], 1)
array_negative_dot_product(a, a)
array_negative_inner_product(a, a)
array_pop_back(l)
array_pop_front(l)
array_position(l, 1)
array_prepend(0, l)
array_push_back(l, 0)
array_push_front(l, 0)
array_reduce([1, 2, 3], lambda x, y: x * y)
array_resize(l, 2)
array_reverse(l)
array_reverse_sort(l)
array_select(l, [1, 4])
array_slice(l, 1, 2)
array_slice(s, 2, 3)
array_sort(l)
array_sort(lx, 'DESC', 'NULLS FIRST')
array_to_json(l)
array_to_string(l, '-')
array_transform(ls, lambda e: upper(e))
array_unique(l)
array_where([1, 2], [true, false])
array_zip(l, ls)
ascii(s)
asin(0.5)
asinh(n)
assert_true(true)
atan(x)
atan2(x, 1)
atanh(0.5)
bar(k, 0, 10, 20)
base64(b)
bin(n::BIGINT)
bin(s)
binom(5, 2)
bit_count(n)
bit_length(s)
bit_position('010'::BIT, '1110101'::BIT)
bitstring('1010', 7)
cardinality(mp)
cbrt(x)
ceil(x)
ceil(m)
ceiling(f)
century(d)
char_length(s)
character_length(s)
chr(65 + k::INTEGER)
concat(s, NULL, n)
concat(l, [5])
concat_ws('-', s, NULL, k)
contains(s, 'l')
contains(l, 1)
cos(k)
cosh(k)
cot(k)
damerau_levenshtein(s, 'Hello')
date_add(DATE '2024-01-31', INTERVAL 1 MONTH)
date_diff('month', DATE '2024-01-31', d)
date_diff('day', t, TIMESTAMP '2024-01-01')
date_part('year', t)
date_part(['year', 'month'], d)
date_part('timezone', z)
date_sub('month', d, DATE '2024-02-28')
date_trunc('month', t)
date_trunc('week', d)
date_trunc('hour', z)
datediff('year', d, DATE '2000-01-01')
datepart('dow', d)
datesub('year', d, DATE '2000-01-01')
datetrunc('quarter', d)
day(d)
dayname(d)
dayofmonth(d)
dayofweek(d)
dayofyear(d)
days_in_month(d)
decade(d)
decode('\xC3\xA4'::BLOB)
degrees(x)
editdist3(s, 'Hello')
element_at(mp, 'p')
encode(s)
ends_with(s, 'd')
enum_code('a'::ENUM('b', 'a'))
enum_first(NULL::ENUM('b', 'a'))
enum_last(NULL::ENUM('b', 'a'))
enum_range(NULL::ENUM('b', 'a'))
enum_range_boundary('b'::ENUM('b', 'a'), NULL)
epoch(t)
epoch_ms(t)
epoch_ms(701222400000)
epoch_ns(ns)
epoch_us(z)
equi_width_bins(0, 10, 3, true)
era(d)
even(x)
exp(1)
factorial(5)
fdiv(n, 2)
filter(l, lambda e: e IS NOT NULL)
flatten([l, [5]])
floor(x)
floor(m)
fmod(n, 4)
format('{} {:.2f} {:05d}', s, x, n)
format('{:,}', n)
format_bytes(k)
format_type(23, NULL)
from_base64('QQ==')
from_binary('0110')
from_hex('2A')
from_json(j, '{"s": "VARCHAR"}')
from_json_strict('{"s": "v"}', '{"s": "VARCHAR"}')
gamma(5.5)
gcd(n, 14)
generate_series(1, 3)
generate_subscripts(l, 1)
get_bit('0110010'::BIT, 2)
get_type(l)::VARCHAR
grade_up(l)
greatest(n, 5)
greatest(x, f)
greatest(s, 'I')
greatest_common_divisor(n, 21)
hamming('abc', 'abd')
hash(n)
hash(s, x)
hash(x)
hex(s)
hex(ub)
hour(t)
ilike_escape(s, 'h$%', '$')
instr(s, 'l')
isfinite(x)
isfinite(d)
isinf(f)
isnan(x)
isodow(d)
isoyear(d)
jaccard('duck', 'luck')
jaro_similarity('duck', 'duckdb')
jaro_winkler_similarity('duck', 'duckdb')
json(j)
json_array(n, s, x > 0)
json_array_length(j, '$.a')
json_contains(j, '1')
json_deep_merge(j, '{"z": 1}')
json_exists(j, '$.a')
json_extract(j, '$.a[0]')
json_extract(j, ['a', 's'])
json_extract_path(j, 's')
json_extract_path_text(j, 's')
json_extract_string(j, '$.s')
json_insert(j, '$.new', '1'::JSON)
json_keys(j)
json_merge_patch(j, '{"s": null}')
json_merge_patch_diff('{"a": 1}', '{"a": 2}')
json_normalize(j)
json_object('k', k, 's', s)
json_pretty(j)
json_quote(s)
json_remove(j, '$.a')
json_replace(j, '$.s', '5'::JSON)
json_set(j, '$.t', '5'::JSON)
json_strip_nulls(j)
json_structure(j)
json_transform(j, '{"n": "DOUBLE"}')
json_transform_strict('{"n": 1}', '{"n": "DOUBLE"}')
json_type(j)
json_type(j, '$.a')
json_valid(s)
json_value(j, '$.n')
julian(d)
last_day(DATE '2024-02-01')
lcase(s)
lcm(6, 4)
least(n, 5)
least(x, f, 1)
least_common_multiple(6, 4)
left(s, 3)
left(s, -2)
left_grapheme(s, 2)
len(s)
len(l)
length(s)
length('101'::BIT)
length_grapheme(s)
levenshtein(s, 'Hello')
lgamma(5)
like_escape(s, 'H$%', '$')
list_aggr(l, 'sum')
list_aggregate(l, 'string_agg', '|')
list_any_value(l)
list_append(l, 1)
list_apply(l, lambda e: e)
list_approx_count_distinct(l)
list_avg(l)
list_bit_and([1, 3])
list_bit_or([1, 2])
list_bit_xor([1, 3])
list_bool_and([true, false])
list_bool_or([true, false])
list_cat(l, l)
list_concat(l, NULL, [1])
list_contains(l, 1)
list_cosine_distance([1.0, 2], [2.0, 1])
list_cosine_similarity([1.0, 2], [2.0, 1])
list_count(l)
list_distance([1.0, 2], [2.0, 1])
list_distinct([2, 2, NULL])
list_dot_product([1.0, 2], [2.0, 1])
list_element(l, 1)
list_entropy(l)
list_extract(l, 2)
list_filter(lx, lambda e: e > 1)
list_first(l)
list_grade_up(l)
list_has(l, 1)
list_has_all(l, [])
list_has_any(ls, ['x'])
list_histogram(l)
list_indexof(l, 2)
list_inner_product([1.0], [2.0])
list_intersect([1, 2], [2])
list_kurtosis([1, 2, 3, 5])
list_kurtosis_pop([1, 2, 3, 5])
list_last(l)
list_mad([1, 2, 5])
list_max(lx)
list_median([1, 2, 5])
list_min(lx)
list_mode([1, 1, 5])
list_negative_dot_product([1.0], [2.0])
list_negative_inner_product([1.0], [2.0])
list_pack(n, k)
list_position(l, NULL)
list_prepend(n, l)
list_product([2, 3])
list_reduce([1, 2, 3], lambda x, y: x - y, 100)
list_resize(l, 5, 0)
list_reverse(ls)
list_reverse_sort(lx)
list_select(l, [1])
list_sem([1, 2, 5])
list_skewness([1, 2, 5])
list_slice(l, 1, -1)
list_sort(lx)
list_sort(l, 'DESC', 'NULLS LAST')
list_stddev_pop([1, 2, 5])
list_stddev_samp([1, 2, 5])
list_string_agg(ls)
list_sum(lx)
list_transform(l, lambda e, i: e % 10 + i)
list_unique(lx)
list_value(n, NULL)
list_var_pop([1, 2])
list_var_samp([1, 2])
list_where(ls, [true])
list_zip(l, lx, true)
ln(k)
log(k)
log(2, k)
log10(k)
log2(k)
lower(s)
lpad(s, 14, '<')
ltrim('  a ')
ltrim(s, 'H')
make_date(2024, 2, 29)
make_date({'year': 2024, 'month': 1, 'day': 2})
make_time(12, 34, 56.5)
make_timestamp(2024, 2, 29, 1, 2, 3.5)
make_timestamp(1709210096123456)
make_timestamp_ms(1709210096123)
make_timestamp_ns(1709210096123456789)
make_timestamptz(2024, 2, 29, 1, 2, 3.5, 'Europe/Berlin')
map([1, 2], ['a', 'b'])
map_concat(mp, MAP {'p': 9::BIGINT})
map_contains(mp, 'p')
map_contains_entry(mp, 'p', 1)
map_contains_value(mp, 1)
map_entries(mp)
map_extract(mp, 'p')
map_extract_value(mp, 'p')
map_from_entries([('a', 1)])
map_keys(mp)
map_values(mp)
md5(s)
md5_number(s)
md5_number_lower(s)
md5_number_upper(s)
microsecond(t)
millennium(d)
millisecond(t)
minute(t)
mismatches('abc', 'abd')
month(d)
monthname(d)
nanosecond(ns)
nextafter(x, 5)
nfc_normalize(s)
normalized_interval(INTERVAL '40 days 30 hours')
not_ilike_escape(s, 'h$%', '$')
not_like_escape(s, 'H$%', '$')
octet_length(b)
ord(s)
overlay(s, 'XX', 2, 1)
parse_dirname('/a/b/c.csv')
parse_dirpath('/a/b/c.csv')
parse_filename('/a/b/c.csv', true)
parse_formatted_bytes('16 KiB')
parse_path('/a/b.csv')
path_join('a', 'b')
pi()
position('l' IN s)
pow(k, 2)
power(k, 0.5)
prefix(s, 'He')
printf('%s|%d', s, k)
quarter(d)
radians(x)
range(k)
range(TIMESTAMP '2024-01-01', TIMESTAMP '2024-01-03', INTERVAL 1 DAY)
reduce([1, 2], lambda a, b: a + b)
regexp_escape(s)
regexp_extract(s, '([a-z])([a-z])', 2)
regexp_extract(s, '(\w)(\w)', ['p', 'q'])
regexp_extract_all(s, '[a-z]+')
regexp_full_match(s, '.*')
regexp_matches(s, 'H|,')
regexp_matches(s, 'hello', 'i')
regexp_replace(s, '[a-z]', '-')
regexp_replace(s, '([a-z])', '<\1>', 'g')
regexp_split_to_array(s, '[, ]')
repeat(s, 2)
repeat(l, 2)
replace(s, 'l', 'L')
reverse(s)
right(s, 3)
right_grapheme(s, 2)
round(x)
round(m, 1)
round(k, -1)
round(2.5)
round(-2.5)
round(x, 1)
round_even(2.5, 0)
roundbankers(x, 1)
row(n, s)
row_to_json(o)
rpad(s, 14, '>')
rtrim(s, 'd')
second(t)
set_bit('0110010'::BIT, 2, 0)
sha1(s)
sha256(b)
sign(x)
signbit(x)
sin(k)
sinh(k)
split(s, ',')
split_part(s, ',', 2)
sqrt(k)
starts_with(s, '')
str_split(s, '')
str_split_regex(s, '[,]')
strftime(t, '%Y-%m-%d %H:%M:%S.%f %A %j %U %%')
strftime(d, '%a, %-d %B %Y')
string_split(s, ',')
string_split_regex(s, ',+')
string_to_array(s, ' ')
strip_accents(s)
strlen(s)
strpos(s, 'l')
strptime('2024-02-29', '%Y-%m-%d')
strptime('29/02/24 05:06', ['%Y', '%d/%m/%y %H:%M'])
strptime('2024-02-29 +0200', '%Y-%m-%d %z')
struct_concat(o, {'c': 1})
struct_contains(row(1, 2), 2)
struct_extract(o, 'a')
struct_extract(row(1, 2), 1)
struct_extract_at(o, 2)
struct_has(row(1, 2), 3)
struct_indexof(row(1, 2), 2)
struct_insert(o, c := n)
struct_keys(o)
struct_pack(p := n, q := s)
struct_position(row(1, 2), 2)
struct_update(o, a := 5)
struct_values(o)
substr(s, 0, 2)
substr(s, -3)
substring(s, 2, 3)
SUBSTRING(s FROM 2 FOR 2)
substring_grapheme(s, 2, 2)
suffix(s, 'd')
switch(n, MAP {7: 'a', 0: 'b'}, 'c')
tan(k)
tanh(x)
time_bucket(INTERVAL 1 MONTH, d)
time_bucket(INTERVAL '1 day', t)
time_bucket(INTERVAL '1 hour', z)
timezone_hour(TIMETZ '12:00:00+05:30')
timezone_minute(TIMETZ '12:00:00+05:30')
to_base(42, 16, 5)
to_base64(b)
to_binary(n::BIGINT)
to_centuries(1)
to_days(k::INTEGER)
to_decades(1)
to_hex(n::BIGINT)
to_hours(k)
to_json(o)
to_json(lx)
to_json(d)
to_microseconds(k)
to_millennia(1)
to_milliseconds(1.5)
to_minutes(k)
to_months(k::INTEGER)
to_quarters(1)
to_seconds(1.5)
to_timestamp(k * 1e9)
to_weeks(1)
to_years(1)
translate(s, 'lo', 'x')
trim(s, 'Hd')
trunc(x)
trunc(m)
try_strptime(s, '%Y')
try_strptime('2024', '%Y')
typeof(h)
typeof(lo)
typeof(1.0)
typeof(NULL)
ucase(s)
unbin('0110')
unhex('2A')
unicode(s)
union_extract(union_value(k := 1), 'k')
union_tag(union_value(k := 1))
upper(s)
url_decode('a%20b')
url_encode(s)
uuid_extract_timestamp('019482e4-1441-7aad-8127-eec99573b0a0')
uuid_extract_version('019482e4-1441-7aad-8127-eec99573b0a0')
variant_array_length([1, 2]::VARIANT)
variant_contains([1, 2]::VARIANT, 1::VARIANT)
variant_exists({'a': 1}::VARIANT, 'a')
variant_extract({'a': 1}::VARIANT, 'a')::INTEGER
variant_extract_string({'a': 'q'}::VARIANT, 'a')
variant_keys({'a': 1, 'b': 2}::VARIANT)
variant_normalize({'b': 1, 'a': 2}::VARIANT)
variant_type({'a': 1}::VARIANT)
variant_typeof({'a': 1}::VARIANT)
week(d)
weekday(d)
weekofyear(d)
year(d)
year(t)
yearweek(d)
unpivot_list(n, k)
"""

AGGREGATES: Final = r"""
any_value(7 + 0 * k)
approx_count_distinct(n)
approx_quantile(k, 0.5)
approx_top_k(k // 5, 1)
arbitrary(7 + 0 * k)
arg_max(s, k)
arg_max(s, x)
arg_max_null(s, k)
arg_max_nulls_last(s, n, 2)
arg_min(s, k)
arg_min(k, f)
arg_min_null(n, k)
arg_min_nulls_last(s, n, 2)
argmax(k, d)
argmin(k, t)
array_agg(s ORDER BY k)
array_agg(s ORDER BY k DESC) FILTER (WHERE n > 0)
avg(n)
avg(m)
avg(k)
avg(f) FILTER (WHERE isfinite(f))
avg(ok::INTEGER)
bit_and(n)
bit_or(n)
bit_xor(ui)
bitstring_agg(k, 1, 6)
bool_and(ok)
bool_or(ok)
corr(k, k * k)
count(*)
count(n)
count(DISTINCT ok)
count(DISTINCT x)
count(DISTINCT (n, ok))
count_if(n > 0)
count_star()
countif(ok)
covar_pop(k, k * k)
covar_samp(k, k * k)
entropy(ok)
favg(k)
first(s ORDER BY k)
fsum(m)
geomean(k)
geometric_mean(k)
group_concat(s, '|' ORDER BY k)
histogram(ok)
histogram(k, [2, 4])
histogram_exact(k, [2, 4])
json_group_array(n)
json_group_object(k, n)
json_group_structure(j)
kahan_sum(k)
kurtosis(k)
kurtosis_pop(k)
last(s ORDER BY k)
list(l ORDER BY k)
list(DISTINCT ok ORDER BY ok)
listagg(s, ', ' ORDER BY k)
mad(k)
max(x)
max(f)
max(s)
max(n, 2)
max(o)
max(lx)
max(o.a)
max(d)
max(t)
max(z)
max(h)
max(ub)
max(m)
max(mm)
max(ok)
max(b)
max(c)
max(u)
max(ns)
max_by(s, k)
mean(k)
median(k)
median(m)
min(x)
min(f)
min(s)
min(k, 3)
min(o.a)
min(d)
min(t)
min(z)
min(h)
min(ub)
min(m)
min(mm)
min(b)
min_by(s, k)
mode(0 * k)
product(k)
quantile(k, 0.5)
quantile_cont(k, 0.3)
quantile_cont(k, [0.1, 0.9])
quantile_cont(DATE '2024-01-01' + k::INTEGER, 0.5)
quantile_disc(s, 0.5)
quantile_disc(x, 0.9)
regr_avgx(k, n)
regr_avgy(k, n)
regr_count(k, n)
regr_intercept(k, k * k)
regr_r2(k, k * k)
regr_slope(k, k * k)
regr_sxx(k, k * k)
regr_sxy(k, k * k)
regr_syy(k, k * k)
sem(k)
skewness(k)
stddev(k)
stddev_pop(k)
stddev_samp(k)
string_agg(s, ',' ORDER BY s)
sum(n)
sum(k)
sum(m)
sum(x)
sum(h % 1000)
sum(ok)
sum(DISTINCT ti)
sum_no_overflow(ti::INTEGER)
sumkahan(k)
var_pop(k)
var_samp(k)
variance(k)
variant_group_array(k)::BIGINT[]
variant_group_object(k::VARCHAR, k::VARIANT)::JSON
wavg(k, k)
weighted_avg(k, k * 2)
percentile_cont(0.5) WITHIN GROUP (ORDER BY k)
lttb(k, k, 3)
sum(k) FILTER (x > 1e9 OR isnan(f))
"""

WINDOWS: Final = """
row_number() OVER (ORDER BY k)
row_number() OVER (PARTITION BY ok ORDER BY x, k)
rank() OVER (ORDER BY ok)
rank_dense() OVER (ORDER BY ok)
dense_rank() OVER (ORDER BY ok DESC NULLS FIRST)
percent_rank() OVER (ORDER BY x)
cume_dist() OVER (ORDER BY f)
ntile(2) OVER (ORDER BY k)
lag(s) OVER (ORDER BY k)
lag(n, 2, 0) OVER (ORDER BY k)
lead(d) OVER (ORDER BY k)
first_value(s) OVER (ORDER BY k)
last_value(s IGNORE NULLS) OVER (ORDER BY k)
nth_value(s, 2) OVER (ORDER BY k)
fill(m) OVER (ORDER BY k)
sum(n) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
sum(k) OVER (ORDER BY k RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)
max(x) OVER (ORDER BY k ROWS UNBOUNDED PRECEDING EXCLUDE CURRENT ROW)
min(x) OVER (PARTITION BY ok)
count(*) OVER ()
count(*) OVER (ORDER BY d RANGE BETWEEN INTERVAL 1 YEAR PRECEDING AND CURRENT ROW)
avg(k) FILTER (WHERE n > 0) OVER (ORDER BY k)
list(k) OVER (ORDER BY k DESC GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW)
arg_max(s, k) OVER (ORDER BY k)
"""

CHANGING: Final = """
gen_random_uuid()
uuid()
uuidv4()
uuidv7()
random()
reservoir_quantile(k, 0.5)
now()
current_timestamp
transaction_timestamp()
get_current_timestamp()
current_date
today()
localtime
current_localtime()
localtimestamp
current_localtimestamp()
age(DATE '2020-01-01'::TIMESTAMP)
ago(INTERVAL 1 DAY)
"""
"""Another value each time: their types are compared."""

QUERIES: Final = """
SELECT unnest(l) AS l, k FROM t ORDER BY k, l
SELECT k, unnest(o) FROM t ORDER BY k
SELECT k, unnest(lo, recursive := true) FROM t ORDER BY ALL
SELECT * FROM unnest([1, 2, 3]) AS u(x)
SELECT * FROM range(3)
SELECT * FROM generate_series(1, 10, 4) AS g(x)
SELECT * FROM range(DATE '2024-01-01', DATE '2024-03-01', INTERVAL 1 MONTH)
SELECT json_transform(j, '{"a": "JSON"}') AS x FROM t ORDER BY k
SELECT * FROM t ORDER BY k
SELECT t FROM t ORDER BY k
SELECT #2, #1 FROM t ORDER BY ALL
SELECT COLUMNS('^(k|n|x)$') FROM t ORDER BY k
SELECT COLUMNS(* EXCLUDE (o, lo)) FROM t ORDER BY k
SELECT * EXCLUDE (s) REPLACE (n % 5 AS n) FROM t ORDER BY k
SELECT * LIKE 's%' FROM t ORDER BY k
SELECT * RENAME (n AS nn) FROM t ORDER BY k
SELECT max(COLUMNS(lambda e: e IN ('k', 'x', 'f'))) FROM t
SELECT o.* FROM t ORDER BY k
SELECT t.* FROM t ORDER BY k
TABLE t
FROM t
FROM t SELECT k, n WHERE n > 0 ORDER BY k
VALUES (1, 'a'), (2, NULL)
DESCRIBE t
SUMMARIZE SELECT k, s, x FROM t
UNPIVOT (SELECT k, n, si FROM t) ON n, si ORDER BY ALL
PIVOT (SELECT ok, k % 2 AS p, k FROM t) ON p IN (0, 1) USING sum(k) GROUP BY ok ORDER BY ALL
PIVOT t ON ok IN (true, false) USING max(x) AS x, count(*) AS c GROUP BY ti ORDER BY ALL
SELECT ok, n > 0 AS p, grouping(ok, p), grouping_id(ok) FROM t GROUP BY GROUPING SETS ((ok, p), ()) ORDER BY ALL
SELECT ok, ti, count(*) AS c FROM t GROUP BY CUBE (ok, ti) ORDER BY ALL
SELECT ok, ti, max(x) AS c FROM t GROUP BY ROLLUP (ok, ti) HAVING count(*) > 0 ORDER BY ALL
SELECT ok, sum(k) FROM t GROUP BY ALL ORDER BY ALL DESC NULLS FIRST
SELECT k, x FROM t QUALIFY row_number() OVER (PARTITION BY ok ORDER BY k) = 1 ORDER BY k
SELECT DISTINCT ON (ok) ok, k FROM t ORDER BY ok, k DESC
SELECT k AS q, q + 1 AS r FROM t WHERE q > 2 ORDER BY r DESC LIMIT 2 OFFSET 1
SELECT k FROM t ORDER BY x DESC NULLS LAST, k LIMIT 50 PERCENT
SELECT k FROM t WHERE (k, ok) IN ((1, true), (2, false)) ORDER BY 1
SELECT k FROM t WHERE x > ALL (SELECT x FROM t WHERE x < 0) ORDER BY k
SELECT k FROM t WHERE x = ANY (SELECT x FROM t WHERE isnan(x)) ORDER BY k
SELECT k FROM t WHERE n NOT IN (SELECT n FROM t WHERE n > 0) ORDER BY k
SELECT k, (SELECT count(*) FROM t i WHERE i.k < t.k AND i.x = t.x) AS c FROM t ORDER BY k
SELECT k, e FROM t, LATERAL (SELECT unnest(l) AS e) ORDER BY ALL
SELECT a.k, b.k FROM t a ASOF JOIN t b ON a.k > b.k ORDER BY ALL
SELECT a.k, b.n FROM t a POSITIONAL JOIN (SELECT n FROM t ORDER BY k) b ORDER BY ALL
SELECT k, n FROM t UNION BY NAME SELECT n, s FROM t ORDER BY ALL
SELECT n FROM t INTERSECT SELECT ti FROM t ORDER BY ALL
SELECT n FROM t EXCEPT ALL SELECT ti FROM t ORDER BY ALL
SELECT a.x FROM t a JOIN t b ON a.x = b.x ORDER BY ALL
SELECT a.k, b.k AS bk FROM t a LEFT JOIN t b ON a.x = b.f AND b.k > 2 WHERE b.k IS NULL OR b.x > 5 ORDER BY ALL
SELECT k FROM t SEMI JOIN (SELECT x FROM t WHERE isnan(x)) USING (x)
SELECT k FROM t ANTI JOIN (SELECT x FROM t WHERE x > 5) USING (x) ORDER BY k
WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 4) FROM r JOIN t ON i = k ORDER BY i
WITH t AS (SELECT k, x FROM t WHERE k > 3) SELECT * FROM t ORDER BY k
"""
"""Whole queries."""

FAILING: Final = r"""
5 // 0
5 % 0
2147483647::INTEGER + 1::INTEGER
9223372036854775807 + 1::BIGINT
'x'::INTEGER
300::TINYINT
'2024-13-01'::DATE
CAST(s AS DOUBLE)
CAST(x AS INTEGER)
l::INTEGER[]
error('no')
assert_true(false)
nosuch
nosuch(1)
s + 1
sum(sum(k))
1 = [1]
[1, 'x']
{'a': 1}.b
'a'::ENUM('b')
factorial(-1)
strptime('x', '%Y')
json('{')
"""

CASTS: Final = {
    "BOOLEAN": ["true", "NULL"],
    "TINYINT": ["0", "-128", "127"],
    "SMALLINT": ["300", "-32768"],
    "INTEGER": ["1", "2147483647"],
    "BIGINT": ["9223372036854775807", "-9223372036854775808", "5"],
    "HUGEINT": ["170141183460469231731687303715884105727", "-170141183460469231731687303715884105728", "5"],
    "UTINYINT": ["255"],
    "USMALLINT": ["65535"],
    "UINTEGER": ["4294967295"],
    "UBIGINT": ["18446744073709551615"],
    "UHUGEINT": ["0", "7"],
    "FLOAT": ["'nan'", "'inf'", "'-0.0'", "'2.5'", "'-2.5'", "'16777217'"],
    "DOUBLE": ["'nan'", "'-inf'", "'-0.0'", "'0.5'", "'1.5'", "'1e30'", "'1e-7'"],
    "DECIMAL(4,1)": ["2.5", "-2.5", "999.9"],
    "DECIMAL(18,3)": ["0.0005", "-1.005"],
    "DECIMAL(38,0)": ["99999999999999999999999999999999999999"],
    "VARCHAR": [
        "''",
        "'1'",
        "'2.5'",
        "'true'",
        "'nan'",
        "'2024-02-29'",
        "'12:34:56'",
        "'[1, 2]'",
        "'{\"a\": 1}'",
    ],
    "BLOB": ["'a'", "'\\x00\\xFF'", "''"],
    "BIT": ["'101'", "'00000001'"],
    "DATE": ["'0001-01-01'", "'9999-12-31'", "'2024-02-29'", "'infinity'", "'0044-03-15 (BC)'"],
    "TIME": ["'00:00:00'", "'23:59:59.999999'"],
    "TIMETZ": ["'12:00:00+05:30'"],
    "TIMESTAMP": ["'2024-02-29 23:59:59.5'", "'0001-01-01'", "'-infinity'"],
    "TIMESTAMP_S": ["'2024-02-29 23:59:59'"],
    "TIMESTAMP_MS": ["'2024-02-29 23:59:59.999'"],
    "TIMESTAMP_NS": ["'2024-02-29 23:59:59.999999999'"],
    "TIMESTAMPTZ": ["'2024-07-01 00:00:00+02'", "'9999-12-31 23:59:59+00'", "'infinity'"],
    "INTERVAL": ["'1 year 2 months 3 days 04:05:06.789'", "'-1 day'"],
    "UUID": ["'00000000-0000-0000-0000-000000000001'"],
    "JSON": ["'{\"a\": 1}'", "'[1, 2]'", "'5'", "'null'"],
    "INTEGER[]": ["[1, NULL]", "[]"],
    "DOUBLE[2]": ["['nan', '1']"],
    "STRUCT(a INTEGER, b VARCHAR)": ["{'a': 1, 'b': 'x'}"],
    "MAP(VARCHAR, INTEGER)": ["MAP {'a': 1}"],
    "ENUM('b', 'a', '1')": ["'a'", "'1'"],
}
"""Types, and values of each. All are cast to all."""
