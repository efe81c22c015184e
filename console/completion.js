// What can complete the word before the cursor: names of the catalogue where they fit, functions, words of the language.

import { quoted } from "./ask.js";

const SHOWN = 8;
const WORD = /[\p{L}\p{N}_$]*$/u;
const PLAIN = /^[a-z_][a-z0-9_]*$/;

let known = { relations: [], functions: [], words: [] };
let asked = 0;
let pending = null;

const ask = async () => {
  try {
    const answer = await fetch("api/catalog");
    if (answer.ok) known = await answer.json();
  } catch {
    // The header of the page says that the server does not answer.
  }
};

// The catalogue changes seldom: it is asked again when somebody writes and some seconds have passed.
// The first answer is waited for.
export const refresh = () => {
  if (Date.now() - asked >= 5000) {
    asked = Date.now();
    pending = ask();
  }
  return known.words.length ? null : pending;
};

// Whether the end of a text is within a quoted text or a comment.
const isQuoted = (text) => {
  const rest = text.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--.*\n|\/\*[^]*?\*\//g, " ");
  return /['"]|--|\/\*/.test(rest);
};

// A name as a statement needs it. Most words of the language may be names; these may not.
const RESERVED = new Set(("all and any as asc between by case cast cross desc distinct else end except exists false from full group having "
  + "in inner intersect interval is join left like limit natural not null offset on or order outer right select table then true union "
  + "using values when where window with").split(" "));
export const written = (name) => (PLAIN.test(name) && !RESERVED.has(name) ? name : quoted(name));

// The relations that a statement names, with their aliases: alias -> relation.
const named = (text) => {
  const found = new Map();
  const names = new Map(known.relations.map((relation) => [relation.name.toLowerCase(), relation]));
  const pattern = /\b(?:from|join|,)\s+("(?:[^"]|"")*"|[\p{L}_][\p{L}\p{N}_$]*)(?:\s+(?:as\s+)?([\p{L}_][\p{L}\p{N}_$]*))?/giu;
  for (const [, name, alias] of text.matchAll(pattern)) {
    const relation = names.get(name.replace(/^"|"$/g, "").replaceAll('""', '"').toLowerCase());
    if (!relation) continue;
    found.set(relation.name.toLowerCase(), relation);
    if (alias) found.set(alias.toLowerCase(), relation);
  }
  return found;
};

// The place where the word begins, and what it may be: [{ text, label, kind }].
export const complete = (text, cursor, isAsked) => {
  const before = text.slice(0, cursor);
  const word = before.match(WORD)[0];
  const start = cursor - word.length;
  const none = { start, choices: [] };
  if (cursor - start > 200 || isQuoted(before)) return none;
  const begins = (name) => name.toLowerCase().startsWith(word.toLowerCase()) && name !== word;
  const relations = named(text);
  const ofColumns = (relation) => relation.columns.map((column) => ({
    text: written(column.name), name: column.name, label: `${column.type}, ${relation.name}`, kind: "column",
  }));
  const qualifier = before.slice(0, start).match(/([\p{L}\p{N}_$]+)\.$/u);
  let all;
  if (qualifier) {
    const relation = relations.get(qualifier[1].toLowerCase());
    all = relation ? ofColumns(relation) : [];
  } else {
    const isRelation = /\b(from|join|describe|to)\s+$/i.test(before.slice(0, start));
    if (!word && !isAsked && !isRelation) return none;
    const isSmall = word === word.toLowerCase();
    const tables = known.relations.map((relation) => ({
      text: written(relation.name), name: relation.name, label: relation.kind, kind: "relation",
    }));
    const columns = [...new Set(relations.values())].flatMap(ofColumns);
    const functions = known.functions.map((name) => ({ text: name + "(", name, label: "function", kind: "function" }));
    const keywords = known.words.map((name) => ({ text: isSmall ? name.toLowerCase() : name, name, label: "", kind: "word" }));
    // Before FROM is written, any column may be meant.
    const others = relations.size === 0 && word ? known.relations.flatMap(ofColumns) : [];
    all = isRelation ? tables : [...columns, ...others, ...tables, ...(word ? keywords : []), ...(word.length > 1 ? functions : [])];
  }
  const seen = new Set();
  const isNew = (choice) => !seen.has(choice.text) && seen.add(choice.text);
  return { start, choices: all.filter((choice) => begins(choice.name) && isNew(choice)).slice(0, SHOWN) };
};
