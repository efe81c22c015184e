// The console: which page is shown, and what all pages have.

import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { Editor } from "./editor.js";
import { Overview } from "./overview.js";
import { Query } from "./query.js";
import { Store, Stores } from "./store.js";
import { history, last, listen, start } from "./status.js";

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
      <nav aria-label="Pages"><a href="#/" aria-current=${current("queries")}>Queries</a><a href="#/store" aria-current=${current("store")}>Store</a><a href="#/editor" aria-current=${current("editor")}>Editor</a></nav>
      <span class=${"state" + (history.error ? " away" : "")} role="status">${history.error ?? (status ? "version " + status.version : "")}</span>
    </header>
    <main id="main">
      ${now.name === "query" ? html`<${Query} key=${now.argument} name=${now.argument} />`
        : now.name === "store" ? (now.argument ? html`<${Store} key=${now.argument} name=${now.argument} />` : html`<${Stores} />`)
        : now.name === "editor" ? html`<${Editor} />` : html`<${Overview} />`}
    </main>`;
};

render(html`<${App} />`, document.getElementById("app"));
start();
