import { Template } from '@huggingface/jinja'
import type { JinjaTemplate } from '../native/native.js'

/**
 * Compiles a chat template. Where the renderer in JavaScript cannot read or render it, llama.cpp's takes
 * over; what both refuse fails with the message of the first.
 *
 * @param compileNative - llama.cpp's Jinja; default: there is none
 * @throws when the text is no template
 */
export function compileTemplate(
  source: string,
  compileNative?: (source: string) => JinjaTemplate,
): JinjaTemplate {
  let first: JinjaTemplate | undefined
  let problem: unknown
  try {
    first = new Template(source)
  } catch (error) {
    if (compileNative === undefined) throw error
    problem = error
  }
  let second: JinjaTemplate | undefined
  const native = () => {
    if (compileNative === undefined) throw problem
    try {
      second ??= compileNative(source)
      return second
    } catch {
      throw problem
    }
  }
  if (first === undefined) return native()
  return {
    render(values) {
      try {
        return first.render(values)
      } catch (error) {
        problem = error
      }
      try {
        return native().render(values)
      } catch {
        throw problem
      }
    },
  }
}
