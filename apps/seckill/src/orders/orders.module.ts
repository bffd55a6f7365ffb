import { Module, type DynamicModule } from '@nestjs/common';
import { GoodsModule } from '../goods/goods.module.js';
import { CheckoutController } from './checkout.controller.js';
import { LockOffController } from './lock-off.controller.js';
import { OrdersController } from './orders.controller.js';
import { OrdersRepository } from './orders.repository.js';
import { PurchaseController } from './purchase.controller.js';
import { PurchaseService } from './purchase.service.js';
import { UnlockedPurchaseController } from './unlocked-purchase.controller.js';

@Module({
  imports: [GoodsModule],
  controllers: [OrdersController, UnlockedPurchaseController],
  providers: [OrdersRepository, PurchaseService],
})
export class OrdersModule {
  static register(locked: boolean): DynamicModule {
    const controllers = locked ? [PurchaseController, CheckoutController] : [LockOffController];
    return { module: OrdersModule, controllers };
  }
}
