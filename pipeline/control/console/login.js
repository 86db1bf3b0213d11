// The token: asked for, tried, and kept for this tab only.

import { acquaint, session } from "./api.js";
import { byId, write } from "./dom.js";

/** Waits until there is a token that counts. `why`: what became of the one before. */
export async function loggedIn(why = "") {
  if (session.token() && (await tried()) === null) return;
  const form = byId("login");
  const input = byId("token");
  write(byId("login-error"), why);
  form.hidden = false;
  input.focus();
  await new Promise((done) => {
    form.onsubmit = async (event) => {
      event.preventDefault();
      session.keep(input.value.trim());
      const trouble = await tried();
      write(byId("login-error"), trouble ?? "");
      if (trouble !== null) return;
      input.value = "";
      form.hidden = true;
      done();
    };
  });
}

/** Whether the token counts: null, or why not. */
async function tried() {
  try {
    await acquaint();
    return null;
  } catch (refused) {
    if (refused.status === 401) session.forget();
    return refused.status === 401 ? "✕ This token does not count." : `✕ ${refused.message}`;
  }
}
