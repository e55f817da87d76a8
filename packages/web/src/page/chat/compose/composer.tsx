import { ArrowUp, FileText, Paperclip, Square, X } from 'lucide'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Form, Problem } from '../../parts/form.js'
import { Icon, IconButton } from '../../parts/icon.js'
import type { TextFile } from '../conversation.js'
import type { Chat } from '../use-chat.js'
import { settingsId } from '../settings/settings-form.js'
import { longPaste, readTextFile } from './text-files.js'

/** Where a question is written: Enter sends it; files can be dropped, pasted or chosen. */
export function Composer({
  chat,
  field,
  system,
  onEditLast,
}: {
  readonly chat: Chat
  readonly field: { readonly current: HTMLTextAreaElement | null }
  /** The name of the system prompt, if there is one. */
  readonly system: string | undefined
  readonly onEditLast: () => void
}): JSX.Element {
  const [text, setText] = useState('')
  const [files, setFiles] = useState<readonly TextFile[]>([])
  const [problem, setProblem] = useState<string>()
  const { isBusy } = chat
  const isEmpty = text.trim() === '' && files.length === 0
  useEffect(() => setProblem(undefined), [text])
  const send = (): void => {
    if (isBusy || isEmpty) return
    chat.send(text, files)
    setText('')
    setFiles([])
  }
  const attach = async (chosen: readonly File[]): Promise<void> => {
    for (const file of chosen) {
      try {
        const read = await readTextFile(file)
        setFiles((known) => [...known, read])
        setProblem(undefined)
      } catch (error) {
        setProblem((error as Error).message)
      }
    }
  }
  const paste = (event: ClipboardEvent): void => {
    const { files: pasted } = event.clipboardData ?? { files: [] }
    const long = event.clipboardData?.getData('text/plain') ?? ''
    if (pasted.length === 0 && long.length <= longPaste) return
    event.preventDefault()
    if (pasted.length > 0) void attach([...pasted])
    else setFiles((known) => [...known, { name: `Pasted text ${known.length + 1}`, text: long }])
  }
  const press = (event: KeyboardEvent): void => {
    if (event.key === 'ArrowUp' && text === '') {
      event.preventDefault()
      onEditLast()
    }
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
    event.preventDefault()
    send()
  }
  return (
    <div class="dock">
      <Form
        class="composer"
        aria-label="Question"
        onSend={send}
        onDropped={(dropped) => void attach(dropped)}
      >
        <ul class="chips" aria-label="Attached">
          {files.map(({ name }, index) => (
            <li class="chip" key={index}>
              <Icon of={FileText} />
              <span>{name}</span>
              <IconButton
                icon={X}
                name={`Remove ${name}`}
                onPress={() => setFiles(files.filter((_, other) => other !== index))}
              />
            </li>
          ))}
        </ul>
        <textarea
          ref={field}
          aria-label="Message"
          placeholder="Message"
          rows={1}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onPaste={paste}
          onKeyDown={press}
        />
        <div class="row">
          <label class="upload button bare" title="Attach text files">
            <Icon of={Paperclip} />
            <input
              type="file"
              multiple
              aria-label="Attach text files"
              onChange={({ currentTarget }) => {
                void attach([...(currentTarget.files ?? [])])
                currentTarget.value = ''
              }}
            />
          </label>
          {system !== undefined && (
            <button type="button" class="chip" popovertarget={settingsId} title="System prompt">
              <span>{system}</span>
            </button>
          )}
          {isBusy ? (
            <IconButton class="send" icon={Square} name="Stop" keys="Esc" onPress={chat.stop} />
          ) : (
            <IconButton
              class="send"
              type="submit"
              icon={ArrowUp}
              name="Send"
              keys="Enter"
              disabled={isEmpty}
            />
          )}
        </div>
        <Problem text={problem} />
      </Form>
    </div>
  )
}
