import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Form, TextArea } from '../../parts/form.js'
import type { ToolCall, ToolResult } from '../conversation.js'

/** A call that a model made, as far as it has come. */
export function Call({ call }: { readonly call: ToolCall }): JSX.Element {
  return (
    <details class="call" open>
      <summary>
        Calls <code>{call.name}</code>
      </summary>
      <pre tabIndex={0} role="region" aria-label={`Arguments of ${call.name}`}>
        {pretty(call.arguments)}
      </pre>
    </details>
  )
}

/** What calls gave, as it was typed in. */
export function Results({ results }: { readonly results: readonly ToolResult[] }): JSX.Element {
  return (
    <>
      {results.map(({ name, content }, index) => (
        <details class="call" key={index} open>
          <summary>
            Result of <code>{name}</code>
          </summary>
          <pre tabIndex={0} role="region" aria-label={`Result of ${name}`}>
            {content}
          </pre>
        </details>
      ))}
    </>
  )
}

/** Asks for the results of calls: nothing runs them here. */
export function ResultsForm({
  calls,
  known = [],
  isBusy,
  onSend,
  onCancel,
}: {
  readonly calls: readonly ToolCall[]
  /** What was given before. */
  readonly known?: readonly ToolResult[]
  readonly isBusy: boolean
  readonly onSend: (results: readonly ToolResult[]) => void
  readonly onCancel?: () => void
}): JSX.Element {
  const [texts, setTexts] = useState(() => calls.map((_, index) => known[index]?.content ?? ''))
  return (
    <Form
      class="results"
      onSend={() =>
        onSend(
          calls.map(({ id, name }, index) => ({ call: id, name, content: texts[index] ?? '' })),
        )
      }
    >
      {calls.map(({ name }, index) => (
        <TextArea
          key={index}
          label={`Result of ${name}${calls.length > 1 ? `, call ${index + 1}` : ''}`}
          value={texts[index]}
          onText={(text) => setTexts(texts.with(index, text))}
        />
      ))}
      <div class="buttons">
        <button type="submit" disabled={isBusy}>
          {calls.length > 1 ? 'Give the results' : 'Give the result'}
        </button>
        {onCancel !== undefined && (
          <button type="button" class="quiet" onClick={onCancel}>
            Cancel
          </button>
        )}
      </div>
    </Form>
  )
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json // it is still coming
  }
}
