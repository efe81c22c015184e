// The console: which page is shown, and what all pages have.

import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { Overview } from "./overview.js";
import { Query } from "./query.js";
import { history, last, listen, start } from "./status.js";

const PAGES = [["queries", "Queries"], ["store", "Store"], ["editor", "Editor"], ["gateways", "Gateways"], ["journal", "Journal"], ["logs", "Logs"]];

// Pages that are fetched when they are first looked at, so that the first one is there sooner.
const fetched = {
  store: () => import("./store.js").then((file) => file.Stores),
  view: () => import("./store.js").then((file) => file.Store),
  editor: () => import("./editor.js").then((file) => file.Editor),
  gateways: () => import("./gateways.js").then((file) => file.Gateways),
  journal: () => import("./journal.js").then((file) => file.Journal),
  logs: () => import("./logs.js").then((file) => file.Logs),
};
const known = {};

const Fetched = ({ page, name }) => {
  const [, look] = useState(0);
  const Found = known[page];
  useEffect(() => {
    if (Found) return undefined;
    let isGone = false;
    fetched[page]().then((found) => {
      known[page] = found;
      if (!isGone) look((count) => count + 1);
    }, () => { history.error = "a part of the page cannot be loaded"; });
    return () => { isGone = true; };
  }, [page]);
  // Its heading takes the place of the one that had the focus.
  useEffect(() => { if (Found && location.hash && document.activeElement === document.body) document.querySelector("h1")?.focus(); }, [Found]);
  return Found ? html`<${Found} name=${name} />` : html`<h1 tabindex="-1">${name || PAGES.find(([other]) => other === page)[1]}</h1><p class="quiet">Asking the server…</p>`;
};

const page = () => {
  const [, name, argument] = location.hash.split("/");
  try {
    return { name: name || "queries", argument: decodeURIComponent(argument ?? "") };
  } catch {
    return { name: "queries", argument: "" };
  }
};

const App = () => {
  const [now, setNow] = useState(page());
  const [, look] = useState(0);
  useEffect(() => listen(() => look((count) => count + 1)), []);
  useEffect(() => {
    const go = () => setNow(page());
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
  useEffect(() => {
    document.title = `Tidemill: ${now.argument || now.name}`;
    if (location.hash) document.querySelector("h1")?.focus();
  }, [now.name, now.argument]);
  const status = last();
  const current = (name) => (now.name === name ? "page" : undefined);
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("h1")?.focus(); }}>To the content</a>
    <header>
      <strong>Tidemill</strong>
      <nav aria-label="Pages">${PAGES.map(([name, title]) => html`<a href=${"#/" + (name === "queries" ? "" : name)} aria-current=${current(name)}>${title}</a>`)}</nav>
      <span class=${"state" + (history.error ? " away" : "")} role="status">${history.error ?? (status ? "version " + status.version : "")}</span>
    </header>
    <main id="main">
      ${now.name === "query" ? html`<${Query} key=${now.argument} name=${now.argument} />`
        : now.name === "store" && now.argument ? html`<${Fetched} key=${now.argument} page="view" name=${now.argument} />`
        : PAGES.some(([name]) => name === now.name && name in fetched) ? html`<${Fetched} key=${now.name} page=${now.name} />` : html`<${Overview} />`}
    </main>`;
};

render(html`<${App} />`, document.getElementById("app"));
start();
