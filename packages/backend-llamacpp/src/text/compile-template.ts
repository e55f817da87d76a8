import { attempt, CllmError, type Logger, messageOf } from '@cllm/core'
import { Template } from '@huggingface/jinja'
import type { JinjaTemplate } from '../native/native.js'

/** Compiles a template's source. */
export type Compile = (source: string) => JinjaTemplate

/**
 * Compiles a chat template. If the renderer in JavaScript cannot compile or render it, llama.cpp's is used; if both
 * fail, the error is the first one's.
 *
 * @param compileNative - llama.cpp's Jinja; default: none
 * @throws if the text is not a valid template
 */
export function compileTemplate(source: string, compileNative?: Compile): JinjaTemplate {
  let native: JinjaTemplate | undefined
  /** The result of llama.cpp's renderer; if that fails, too, throws the first renderer's error. */
  const instead = <T>(problem: unknown, use: (second: JinjaTemplate) => T): T => {
    if (compileNative === undefined) throw problem
    try {
      return use((native ??= compileNative(source)))
    } catch {
      throw problem
    }
  }
  let first: Template
  try {
    first = new Template(source)
  } catch (problem) {
    return instead(problem, (second) => second)
  }
  return {
    render(values) {
      try {
        return first.render(values)
      } catch (problem) {
        return instead(problem, (second) => second.render(values))
      }
    },
  }
}

/** ChatML, used for models without a template of their own. */
const chatMl = `{%- for message in messages -%}
<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% endif -%}`

/**
 * The override, else the model's own template, else ChatML with one warning: its source and its renderer.
 * @throws CllmError `invalid_configuration` when the override is not valid Jinja
 */
export function chooseTemplate(
  override: string | undefined,
  own: string | undefined,
  compile: Compile,
  logger: Logger,
): readonly [source: string, template: JinjaTemplate] {
  if (override !== undefined) return [override, compileOverride(override, compile)]
  let reason = 'has no chat template'
  try {
    if (own !== undefined) return [own, compile(own)]
  } catch (cause) {
    reason = `has a chat template that cannot be read (${messageOf(cause)})`
  }
  logger.warn({ template: 'chatml' }, `the model ${reason}: using ChatML for conversations`)
  return [chatMl, compileTemplate(chatMl)]
}

function compileOverride(source: string, compile: Compile): JinjaTemplate {
  try {
    return compile(source)
  } catch (cause) {
    throw new CllmError(
      'invalid_configuration',
      `chatTemplate is not a valid Jinja template: ${messageOf(cause)}`,
      { cause, details: { field: 'chatTemplate' } },
    )
  }
}

/** No template writes this by itself. */
const probe = 'cllm-probe'

/** Whether a template drops a system message; false if it cannot be rendered. */
export function losesSystem(template: JinjaTemplate): boolean {
  const messages = [
    { role: 'system', content: probe },
    { role: 'user', content: 'Hello' },
  ]
  return !attempt(() => template.render({ messages }), probe).includes(probe)
}

/** Whether a template writes a system message in the middle of a conversation at its place. */
export function keepsLaterSystem(template: JinjaTemplate): boolean {
  const messages = ['system', 'user', 'assistant', 'system', 'user'].map((role, index) => {
    return { role, content: `${probe}-${index}` }
  })
  const text = attempt(() => template.render({ messages, add_generation_prompt: true }), '')
  const [before, at, after] = [2, 3, 4].map((index) => text.indexOf(`${probe}-${index}`))
  return before! < at! && at! < after!
}
