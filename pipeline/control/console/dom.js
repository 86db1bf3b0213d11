// Elements made of values. Texts come from clients and files, so none ever becomes markup.

const SVG = "http://www.w3.org/2000/svg";
// Characters that are not seen, or that change the order of others.
const UNSEEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** The text with characters that are not seen written as `\u{202e}`. */
export function visible(text) {
  return String(text).replace(UNSEEN, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);
}

export const byId = (id) => document.getElementById(id);

/** An element: attributes are texts, `true` or absent (false, null); `on…` are listeners. Children are nodes or texts. */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same, of a drawing. */
export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      node.addEventListener(name.slice(2), value);
    } else if (value !== false && value !== null && value !== undefined) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...nodes(children));
  return node;
}

function nodes(children) {
  const there = children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
  return there.map((child) => (child instanceof Node ? child : document.createTextNode(visible(child))));
}

/** Puts these in place of what `node` had. */
export function fill(node, ...children) {
  node.replaceChildren(...nodes(children));
}

/** Writes a text, if it is another one. */
export function write(node, text) {
  const seen = visible(text);
  if (node.textContent !== seen) node.textContent = seen;
}

/** A field with its label. */
export function field(label, input) {
  return element("label", {}, element("span", {}, label), input);
}

export function choice(name, values) {
  return options(element("select", { name }), values);
}

/** Gives a select these values. What is chosen of them stays. */
export function options(select, values) {
  const isSame = values.length === select.length && values.every(([value], index) => select.options[index].value === value);
  if (isSame) return select;
  const chosen = select.length > 0 ? select.value : null;
  fill(select, values.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
  return select;
}

/** A form whose fields go to `send` by name. It is not sent twice at once. */
export function form(attributes, send, ...children) {
  const node = element("form", { autocomplete: "off", ...attributes }, ...children);
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = node.querySelector("button[type=submit]");
    if (button.disabled) return;
    button.disabled = true;
    try {
      await send(Object.fromEntries(new FormData(node)), node);
    } finally {
      button.disabled = false;
    }
  });
  return node;
}

/** A heading, with a remark beside it. */
export function heading(title, remark = null) {
  return element("h2", {}, title, remark && element("small", {}, remark));
}

let closing = 0;
/** Tells the operator what became of a request. `undo` takes it back. */
export function notify(text, isError = false, undo = null) {
  const button = undo && element("button", {
    type: "button",
    class: "small",
    onclick: () => {
      notice.remove();
      undo();
    },
  }, "Undo");
  const notice = element("p", { class: isError ? "notice error" : "notice" }, `${isError ? "✕" : "✓"} ${text} `, button);
  fill(byId("notices"), notice);
  clearTimeout(closing);
  closing = setTimeout(() => notice.remove(), isError || undo ? 15_000 : 5_000);
}

/** Makes a change, and says what came of it. Returns whether it was made. `undo(answer)` takes it back. */
export async function change(request, undo = null) {
  try {
    const answer = await request;
    notify(answer.done ?? "done", false, undo && (() => undo(answer)));
    return true;
  } catch (refused) {
    notify(refused.message, true);
    return false;
  }
}

/** Asks before something that clients notice, or for the value of a field. */
export function confirmed(question, yes, more = null) {
  return new Promise((decide) => {
    const agree = (event) => {
      event.preventDefault();
      dialog.close("yes");
    };
    const dialog = element("dialog", { "aria-label": question },
      element("form", { autocomplete: "off", onsubmit: agree },
        element("p", {}, question),
        more,
        element("p", { class: "buttons" },
          element("button", { type: "button", onclick: () => dialog.close("") }, "Cancel"),
          element("button", { type: "submit" }, yes))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      decide(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
