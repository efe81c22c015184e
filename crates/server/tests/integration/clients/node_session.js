// What programs in JavaScript do with a server: with pg, its cursors, and postgres.
const assert = require('node:assert');
const { Client } = require('pg');
const Cursor = require('pg-cursor');
const postgres = require('postgres');

const [port, password] = process.argv.slice(2);
const place = { host: '127.0.0.1', port: Number(port), user: 'ada', database: 'db', password };
const names = (rows) => rows.map((row) => row.name);

async function withPg() {
  const client = new Client(place);
  await client.connect();
  const one = await client.query('SELECT name, price FROM prices WHERE id = $1', [2]);
  assert.deepStrictEqual(one.rows, [{ name: 'pear', price: 2.5 }]);
  const some = await client.query('SELECT name FROM prices WHERE id = ANY($1) ORDER BY id', [[1, 3]]);
  assert.deepStrictEqual(names(some.rows), ['apple', 'plum']);
  const cursor = client.query(new Cursor('SELECT name FROM prices ORDER BY id'));
  assert.deepStrictEqual(names(await cursor.read(2)), ['apple', 'pear']);
  assert.deepStrictEqual(names(await cursor.read(2)), ['plum']);
  await cursor.close();
  const later = "SELECT TIMESTAMP '2026-01-01 10:00:00' + $1 = TIMESTAMP '2026-01-01 11:00:00' AS is_so";
  assert.deepStrictEqual((await client.query(later, ['1 hour'])).rows, [{ is_so: true }]);
  const zone = "SELECT TIMESTAMP '2026-01-01 10:00:00' AT TIME ZONE $1 AS at";
  const { at } = (await client.query(zone, ['Europe/Paris'])).rows[0];
  assert.strictEqual(at.toISOString(), '2026-01-01T09:00:00.000Z');
  await client.end();
}

async function withPostgres() {
  const sql = postgres({ ...place, onnotice: () => {} });
  const dear = 2;
  assert.deepStrictEqual(names(await sql`SELECT name FROM prices WHERE price > ${dear} ORDER BY id`), ['pear', 'plum']);
  const read = [];
  await sql`SELECT name FROM prices ORDER BY id`.cursor(1, (rows) => read.push(...names(rows)));
  assert.deepStrictEqual(read, ['apple', 'pear', 'plum']);
  assert.strictEqual((await sql.begin((own) => own`SELECT name FROM prices`)).length, 3);
  await sql.end();
}

withPg().then(withPostgres).then(() => console.log('done'));
