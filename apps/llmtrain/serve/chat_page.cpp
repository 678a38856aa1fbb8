// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/chat_page.h"

#include "core/page/html_page.h"

namespace llmtrain::app {
namespace {

constexpr MarkupLiteral style = R"css(<style>
body { max-width: 860px; min-height: 100vh; display: flex; flex-direction: column; padding-bottom: 20px; }
#texts { flex: 1; margin: 22px 0; display: flex; flex-direction: column; gap: 14px; }
#texts div { white-space: pre-wrap; overflow-wrap: anywhere; border-radius: 12px; padding: 9px 15px; max-width: 88%; }
#texts .user { align-self: flex-end; background: var(--links); color: #ffffff; }
#texts .assistant { align-self: flex-start; background: var(--panel); }
#texts .growing::after { content: "▍"; color: var(--quiet); }
#texts .failed { align-self: stretch; max-width: none; color: var(--bad); border: 1.5px solid var(--bad); }
#texts b { font-weight: 400; color: var(--quiet); }
form { position: sticky; bottom: 0; background: var(--page); padding-top: 8px; }
textarea, form input { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; padding: 8px 12px; }
textarea { width: 100%; resize: vertical; }
form p { display: flex; flex-wrap: wrap; gap: 8px 18px; align-items: center; margin-top: 8px; font-size: 13px; color: var(--quiet); }
form p input { width: 76px; padding: 3px 8px; margin-left: 6px; } form p input[type=password] { width: 180px; }
form p span { flex: 1; }
button { font: inherit; font-weight: 600; color: var(--text); background: var(--panel); border: 1px solid var(--line);
  border-radius: 8px; padding: 5px 18px; cursor: pointer; }
button[type=submit] { color: #ffffff; background: var(--links); border-color: var(--links); }
[hidden] { display: none !important; } footer { display: none; }
</style>)css";

constexpr MarkupLiteral body = R"html(
<header><h1 id="name">…</h1><p id="about"></p></header>
<div id="texts" role="log" aria-live="polite"></div>
<form>
<textarea id="text" rows="3" autofocus aria-label="Message"></textarea>
<p><label>Temperature<input id="temperature" type="number" min="0" max="2" step="0.1" value="0.8"></label>
<label>Most tokens<input id="tokens" type="number" min="1" step="1"></label>
<label id="key-label" hidden>Key<input id="key" type="password" autocomplete="off"></label>
<span></span>
<button type="button" id="clear">Clear</button>
<button type="button" id="stop" hidden>Stop</button>
<button type="submit" id="send">Send</button></p>
</form>
)html";

// A reader that stops in the middle of an answer closes the connection, which ends the text in the server, too.
constexpr MarkupLiteral script = R"js(
(() => {
  const part = (id) => document.getElementById(id);
  const [texts, text, key] = [part("texts"), part("text"), part("key")];
  let model = null, messages = [], reading = null;
  const ask = (path, options = {}) => fetch(path, { ...options, headers: {
    "Content-Type": "application/json", ...(key.value ? { Authorization: "Bearer " + key.value } : {}) } });
  const show = (role, content) => {
    const shown = document.createElement("div");
    shown.className = role;
    shown.textContent = content;
    texts.append(shown);
    shown.scrollIntoView({ block: "end" });
    return shown;
  };
  const failure_of = async (answer) => {
    const said = await answer.json().catch(() => null);
    return said?.error?.message ?? "the server answered " + answer.status;
  };
  const load = async () => {
    const answer = await ask("/v1/models");
    if (answer.status === 401) {
      part("key-label").hidden = false;
      part("about").textContent = "This server asks for its key.";
      return key.focus();
    }
    if (!answer.ok) throw new Error(await failure_of(answer));
    model = (await answer.json()).data[0];
    part("name").textContent = document.title = model.id;
    part("about").textContent = (model.has_chat_template ? "" : "It has no chat template: it goes on with your text. ") +
      "Up to " + model.max_model_len + " tokens.";
    text.placeholder = model.has_chat_template ? "Write a message" : "Begin a text";
    part("tokens").max = model.max_model_len;
    if (model.has_chat_template) part("tokens").placeholder = "any";
    else part("tokens").value = Math.min(200, Math.floor(model.max_model_len / 2));
  };
  const request_of = (content) => {
    const tokens = part("tokens").value;
    const body = { model: model.id, stream: true, temperature: +part("temperature").value,
                   ...(tokens ? { max_tokens: +tokens } : {}) };
    if (!model.has_chat_template) return ["/v1/completions", { ...body, prompt: content }];
    return ["/v1/chat/completions", { ...body, messages: [...messages, { role: "user", content }] }];
  };
  // The pieces of the answer, as server-sent events bring them.
  const follow = async (answer, add) => {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let held = ""; ; ) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (held + value).split("\n\n");
      held = events.pop();
      for (const event of events.map((line) => line.replace(/^data: /, ""))) {
        if (event === "[DONE]") return;
        for (const choice of JSON.parse(event).choices) add(choice.delta?.content ?? choice.text ?? "");
      }
    }
  };
  const grow = async (content, shown) => {
    const [path, body] = request_of(content);
    const answer = await ask(path, { method: "POST", body: JSON.stringify(body), signal: reading.signal });
    if (!answer.ok) throw new Error(await failure_of(answer));
    await follow(answer, (piece) => {
      shown.append(piece);
      shown.scrollIntoView({ block: "end" });
    });
  };
  const send = async (content) => {
    if (model?.has_chat_template) show("user", content);
    const shown = show("assistant growing", "");
    if (!model?.has_chat_template) shown.append(Object.assign(document.createElement("b"), { textContent: content }));
    reading = new AbortController();
    part("send").hidden = !(part("stop").hidden = false);
    try {
      if (!model) await load();
      if (model) await grow(content, shown);
    } catch (error) {
      if (error.name !== "AbortError") show("failed", error.message);
    }
    if (model?.has_chat_template && shown.textContent)
      messages.push({ role: "user", content }, { role: "assistant", content: shown.textContent });
    shown.classList.remove("growing");
    if (!shown.textContent) shown.remove();
    reading = null;
    part("send").hidden = !(part("stop").hidden = true);
    text.focus();
  };
  document.forms[0].addEventListener("submit", (event) => {
    event.preventDefault();
    if (reading || !text.value) return;
    const content = text.value;
    text.value = "";
    send(content);
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    document.forms[0].requestSubmit();
  });
  key.addEventListener("change", () => load().catch((error) => show("failed", error.message)));
  part("stop").addEventListener("click", () => reading?.abort());
  part("clear").addEventListener("click", () => {
    reading?.abort();
    messages = [];
    texts.replaceChildren();
    text.focus();
  });
  load().catch((error) => show("failed", error.message));
})();
)js";

}  // namespace

std::string chat_page() {
  HtmlPage page;
  page.title = "llmtrain";
  page.sections = Html(style) + Html(body);
  page.scripts = {script};
  return html_page(page);
}

}  // namespace llmtrain::app
