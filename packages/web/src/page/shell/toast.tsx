import { X } from 'lucide'
import { useEffect } from 'preact/hooks'
import type { Notice } from '../chat/use-chat.js'
import { IconButton } from '../parts/icon.js'
import { Quiet } from '../parts/form.js'

/** Milliseconds that a notice stays. */
const stayMs = 12_000

interface ToastProps {
  readonly notice: Notice
  readonly onEnd: () => void
}

/** Says what was done, and undoes it for a while. */
export function Toast({ notice, onEnd }: ToastProps) {
  useEffect(() => {
    const timer = setTimeout(onEnd, stayMs)
    return () => clearTimeout(timer)
  }, [notice])
  return (
    <div class="toast" role="status">
      <span>{notice.text}</span>
      {notice.undo !== undefined && <Quiet onClick={notice.undo}>Undo</Quiet>}
      <IconButton icon={X} name="Dismiss" onPress={onEnd} />
    </div>
  )
}
