// Elements built without HTML in strings: what comes from the collection is only ever text.

export const $ = (id) => document.getElementById(id);

/** An element with properties (class, text, attributes, on…) and children. */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") element.className = value;
    else if (key === "text") element.textContent = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The title of the tab. */
export function setTitle(title) {
  document.title = title ? `${title} · genius` : "genius";
}

export const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

export const items = (number) => count(number, "item", "items");

const NAMES = { image: "Picture", text: "Text", pair: "Pair" };
export const MODALITIES = ["Pictures", "Texts", "Pairs"];
export const modalityName = (modality) => NAMES[modality] ?? modality;

const END = 8; // letters of a file's name that are always shown

/** A path in one line: if it is too long its folders are cut first, then its file's name, whose end stays. */
export function pathLine(path) {
  const start = path.lastIndexOf("/") + 1;
  const name = [...path.slice(start)]; // whole letters
  const end = Math.max(0, name.length - END);
  return make(
    "p",
    { class: "id", title: path },
    make("span", { class: "folder", text: path.slice(0, start) }),
    make("span", { class: "name", text: name.slice(0, end).join("") }),
    make("span", { class: "end", text: name.slice(end).join("") }),
  );
}

/** Grey shapes in place of what is being loaded. */
export function ghosts(number, kind, name = "li") {
  return Array.from({ length: number }, () => make(name, { class: `ghost ${kind}`, "aria-hidden": "true" }));
}

/** Show a message in a status area, with a button if there is something to do about it. */
export function say(area, message, kind = "", action = null) {
  area.className = `status ${kind}`;
  area.replaceChildren();
  if (!message) return;
  area.append(make("p", { text: message }));
  if (action) area.append(make("button", { type: "button", class: "quiet", text: action.text, onclick: action.run }));
}

/** Move the focus to `target` if the element that had it is gone, hidden or `before`. */
export function moveFocus(target, before = null) {
  const focused = document.activeElement;
  const lost = !focused || focused === document.body || focused === before || focused.closest("[hidden]");
  if (!lost) return; // the user has moved it meanwhile
  target.focus({ preventScroll: true });
}
