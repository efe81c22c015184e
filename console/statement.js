// The field for a statement: completes words, and marks an error at its place.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./vendor/htm-preact.js";
import { complete, refresh } from "./completion.js";

// Where a place of the text is drawn, from the text that lies behind the field.
const drawn = (behind, at) => {
  const walk = document.createTreeWalker(behind, NodeFilter.SHOW_TEXT);
  let before = 0;
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    if (at <= before + node.length) {
      const range = document.createRange();
      range.setStart(node, at - before);
      range.setEnd(node, at - before);
      const box = range.getBoundingClientRect();
      const frame = behind.getBoundingClientRect();
      return { left: box.left - frame.left, top: box.bottom - frame.top };
    }
    before += node.length;
  }
  return { left: 12, top: 34 };
};

// The text in three parts: before the error, the word at the error, and the rest.
const parts = (text, error) => {
  if (error == null || error >= text.length) return [text + "\n", "", ""];
  const word = text.slice(error).match(/^(?:[\p{L}\p{N}_$]+|[^])/u)[0];
  return [text.slice(0, error), word, text.slice(error + word.length) + "\n"];
};

const EMPTY = { start: 0, choices: [], chosen: 0, hasMoved: false };

export const Statement = ({ field, text, setText, error, placeholder, onRun, onStop }) => {
  const behind = useRef();
  const [offer, setOffer] = useState(EMPTY);
  const [place, setPlace] = useState({ left: 0, top: 0 });
  useEffect(() => { refresh(); }, []);
  const isOpen = offer.choices.length > 0;
  const [before, wrong, after] = parts(text, error);
  const follow = () => { if (behind.current) behind.current.scrollTop = field.current.scrollTop; };
  useLayoutEffect(() => {
    follow();
    if (!isOpen) return;
    const { left, top } = drawn(behind.current, offer.start);
    setPlace({ left: Math.max(0, Math.min(left, field.current.clientWidth - 280)), top: Math.min(top, field.current.clientHeight) + 4 });
  }, [offer, text]);
  const close = () => setOffer(EMPTY);
  const propose = async (isAsked) => {
    await refresh();
    const { value, selectionStart, selectionEnd } = field.current ?? {};
    if (selectionStart !== selectionEnd || document.activeElement !== field.current) return close();
    setOffer({ ...complete(value, selectionStart, isAsked), chosen: 0, hasMoved: false });
  };
  const accept = (choice) => {
    const { start } = offer;
    close();
    field.current.focus();
    field.current.setRangeText(choice.text, start, field.current.selectionStart, "end");
    setText(field.current.value);
  };
  const move = (step) => {
    const count = offer.choices.length;
    setOffer({ ...offer, chosen: (offer.chosen + step + count) % count, hasMoved: true });
  };
  const keys = (event) => {
    const { key } = event;
    const handled = () => event.preventDefault();
    if (key === "Enter" && (event.ctrlKey || event.metaKey)) { handled(); close(); return onRun(); }
    if (key === " " && event.ctrlKey) { handled(); return propose(true); }
    if (!isOpen) { if (key === "Escape") onStop(); return; }
    if (key === "Escape") { handled(); close(); }
    else if (key === "ArrowDown" || key === "ArrowUp") { handled(); move(key === "ArrowDown" ? 1 : -1); }
    else if ((key === "Tab" && !event.shiftKey) || (key === "Enter" && offer.hasMoved)) { handled(); accept(offer.choices[offer.chosen]); }
    else if (/^(Arrow|Home|End|Page|Enter)/.test(key)) close();
  };
  return html`<div class="statement">
    <div class="behind" aria-hidden="true" ref=${behind}>${before}${wrong && html`<mark>${wrong}</mark>`}${after}</div>
    <textarea id="statement" ref=${field} spellcheck=${false} autocapitalize="off" autocomplete="off" placeholder=${placeholder}
      aria-invalid=${wrong || error != null ? "true" : "false"} aria-describedby="problem" aria-autocomplete="list"
      aria-controls=${isOpen ? "offer" : undefined} aria-activedescendant=${isOpen ? "offer-" + offer.chosen : undefined}
      onKeyDown=${keys} onScroll=${follow} onBlur=${close} onClick=${close} value=${text}
      onInput=${(event) => { setText(event.target.value); propose(false); }}></textarea>
    ${isOpen && html`<ul id="offer" role="listbox" aria-label="Completions" style=${{ left: place.left + "px", top: place.top + "px" }}>
      ${offer.choices.map((choice, index) => html`<li id=${"offer-" + index} role="option" aria-selected=${String(index === offer.chosen)}
        onMouseDown=${(event) => { event.preventDefault(); accept(choice); }}>
        <span class="name">${choice.text}</span> <span class="quiet">${choice.label}</span></li>`)}</ul>`}
    <div class="unseen" role="status">${isOpen ? `${offer.choices.length} completions; the Tab key takes ${offer.choices[offer.chosen].name}` : ""}</div>
  </div>`;
};
