import { render } from 'katex'
import 'katex/dist/katex.min.css'

/**
 * Replaces an element's content with a formula; returns false if the text is none. The formula becomes elements,
 * never HTML text, and commands that would make links, images or attributes are off.
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
