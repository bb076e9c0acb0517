// Signatures of neardup.sign_table: the key of a band follows from its rows, and an equal key makes a candidate.
import { readFileSync } from "node:fs";

const [SEED, BANDS, ROWS, ALL] = [1n, 18, 7, (1n << 64n) - 1n]; // seed, bands, rows of a band: the defaults
const mix = (x) => {
  x = ((x ^ (x >> 30n)) * 0xbf58476d1ce4e5b9n) & ALL;
  x = ((x ^ (x >> 27n)) * 0x94d049bb133111ebn) & ALL;
  return x ^ (x >> 31n);
};
const seedOf = (band) => mix((SEED + ((1n << 32n) + BigInt(band)) * 0x9e3779b97f4a7c15n) & ALL);
const keyOf = (rows, band) => mix(seedOf(band) ^ rows.reduce((word, row) => (word << 8n) | BigInt(row), 0n));
const range = (n) => Array.from({ length: n }, (_, i) => i + 1);
const rowsOf = (document, band) => range(ROWS).map((row) => document[`band_${band}_row_${row}`]);

const buckets = new Map();
for (const line of readFileSync(process.argv[2], "utf8").trim().split("\n")) {
  const document = JSON.parse(line.replace(/("band_\d+":)(\d+)/g, '$1"$2"')); // keys have 64 bits
  document.rows = range(BANDS).flatMap((band) => rowsOf(document, band));
  for (const band of range(BANDS)) {
    const key = keyOf(rowsOf(document, band), band);
    if (String(key) !== document[`band_${band}`]) throw new Error(`another key of band ${band}: ${key}`);
    for (const other of buckets.get(key) ?? []) other.near = (other.near ?? new Set()).add(document);
    buckets.set(key, [...(buckets.get(key) ?? []), document]);
  }
}
const documents = new Set([...buckets.values()].flat());
for (const one of documents) for (const other of one.near ?? []) {
  const equal = one.rows.filter((row, i) => row === other.rows[i]).length / one.rows.length;
  console.log(JSON.stringify({ older: one.id, newer: other.id, similarity: (equal - 2 ** -8) / (1 - 2 ** -8) }));
}
