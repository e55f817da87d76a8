import { render } from 'katex'
import 'katex/dist/katex.min.css'

/**
 * Draws a formula into an element, of which nothing else is kept; false where it is none. It becomes elements
 * one by one, as all that a model writes: commands that would make links, images or attributes are off.
 */
export function drawFormula(place: HTMLElement, text: string, isBlock: boolean): boolean {
  try {
    const limits = { maxSize: 20, maxExpand: 500 }
    render(text, place, { displayMode: isBlock, strict: 'ignore', trust: false, ...limits })
    return true
  } catch {
    place.textContent = ''
    return false
  }
}
